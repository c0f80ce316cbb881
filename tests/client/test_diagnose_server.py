"""`fuseworks diagnose --server` against the real web site; the worker's part is played."""

from __future__ import annotations

import json
from zipfile import ZipFile

import pytest

from fuseworks.core.storage import open_stored
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from optimizer.result import Diagnosis
from tests.client.conftest import Command
from tests.client.site import Site, ends, problem
from tests.platform.traces import support

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rank0(fuseworks: Command) -> str:
    return fuseworks.model(support.TRACE.decode(), "rank0.json")


def test_a_trace_is_uploaded_diagnosed_and_told(site: Site, fuseworks: Command, rank0: str) -> None:
    diagnosis = support.slow()
    site.answers("diagnose", ends(support.document(diagnosis)))
    done = fuseworks("diagnose", rank0, "--server", "--name", "Nightly")
    assert done.returncode == 0, done.stderr
    run = Run.objects.get()
    assert (run.version.model.name, run.version.model.kind, run.version.filename) == ("Nightly", "job", "rank0.json")
    lines = done.stdout.splitlines()
    assert lines[0] == diagnosis.summary and lines[-1] == f"{site.url}/runs/{run.pk}/diagnosis/"
    assert lines[1].startswith(f"1. [{diagnosis.findings[0].severity}] {diagnosis.findings[0].title}   costs ")

    again = fuseworks("diagnose", rank0, "--server", "--name", "Nightly", "--json")
    assert Diagnosis.model_validate(json.loads(again.stdout)) == diagnosis
    assert "The server has this very trace already" in again.stderr
    assert (Run.objects.count(), ModelVersion.objects.count()) == (1, 1)


def test_several_ranks_are_one_upload_and_packed_alike_each_time(site: Site, fuseworks: Command, rank0: str) -> None:
    site.answers("diagnose", ends(support.document(support.two_ranks())))
    rank1 = fuseworks.model('{"traceEvents": [ ]}', "rank1.json")
    for _ in range(2):
        assert fuseworks("diagnose", rank0, rank1, "--server").returncode == 0
    trace = ModelVersion.objects.get()
    assert (trace.filename, trace.model.name) == ("traces.zip", "rank0")
    with open_stored(trace.storage_key) as file, ZipFile(file) as archive:
        assert archive.namelist() == ["rank0.json", "rank1.json"]


def test_against_starts_a_comparison_of_both(site: Site, fuseworks: Command, rank0: str) -> None:
    site.answers("diagnose", ends(support.document(support.slow())))
    before = fuseworks.model('{"traceEvents": [ ]}', "before.json")
    assert fuseworks("diagnose", rank0, "--against", before, "--server").returncode == 0
    run = Run.objects.get(against__isnull=False)
    assert run.against is not None
    assert (run.version.filename, run.against.filename) == ("rank0.json", "before.json")


def test_what_is_no_trace_ends_with_4_and_the_remedy(site: Site, fuseworks: Command) -> None:
    done = fuseworks("diagnose", fuseworks.model("class Model: ...", "model.py"), "--server")
    assert done.returncode == 4
    assert "model.py is no trace of torch.profiler: it is a model" in " ".join(done.stderr.split())
    assert "export_chrome_trace" in done.stderr


def test_a_trace_that_cannot_be_read_ends_with_4(site: Site, fuseworks: Command, rank0: str) -> None:
    told = problem("user", "This is a notebook, not a trace of torch.profiler.", "diagnosing:user:foreign")
    site.answers("diagnose", ends({**told, "purpose": "diagnose"}))
    done = fuseworks("diagnose", rank0, "--server")
    assert done.returncode == 4 and "This is a notebook" in done.stderr


@pytest.mark.parametrize("flags", [("--server", "--trusted"), ("--team", "a"), ("--name", "a")])
def test_flags_that_make_no_sense_together_are_refused(fuseworks: Command, rank0: str, flags: tuple[str, ...]) -> None:
    assert fuseworks("diagnose", rank0, *flags).returncode == 64
