"""`fuseworks submit --wait --against VERSION --max-latency-ratio RATIO`: what it compares with, and its exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.registry.models import ModelVersion, Upload
from fuseworks.runs.models import Run
from fuseworks.runs.services import run_cancel
from tests.client.conftest import Command
from tests.client.site import Play, Site, Turn, ends, problem
from tests.platform import factories
from tests.platform.results.support import compared

NEW = "class Model: new\n"
LIMIT = ("--max-latency-ratio", "1.05")
pytestmark = pytest.mark.django_db(transaction=True)


def comparison(low: float, high: float) -> Play:
    """[low, high] is the interval of the speedup: the time of the version before over the new one's."""

    def document(run: Run) -> dict[str, Any]:
        assert run.against is not None
        return compared(run.against, low=low, high=high)

    return ends(document)


def cancelled(turn: Turn) -> None:
    run_cancel(actor=Actor(turn.run.created_by), run=turn.run)


@pytest.mark.parametrize(
    ("play", "code", "words"),
    [
        # latency_ratio is 1 / speedup: [1/1.01, 1/0.97] = [0.990, 1.031], the middle 1/sqrt(0.97 * 1.01) = 1.010
        (
            comparison(0.97, 1.01),
            0,
            "Gate: pass, as uploaded. latency_ratio 1.010 [0.990, 1.031], at most 1.05 allowed.",
        ),
        (
            comparison(0.80, 0.90),
            1,
            "Gate: fail, as uploaded. latency_ratio 1.179 [1.111, 1.250], at most 1.05 allowed.",
        ),
        (
            comparison(0.90, 1.00),
            2,
            "Gate: cannot tell, as uploaded. latency_ratio 1.054 [1.000, 1.111], at most 1.05 allowed.",
        ),
        (ends({**problem("ours"), "purpose": "compare"}), 3, "Gate: no result, as uploaded."),
        (cancelled, 3, "Gate: no result, as uploaded."),
        (ends({**problem("user"), "purpose": "compare"}), 4, "Gate: no result, as uploaded."),
    ],
    ids=["pass", "too slow", "cannot tell", "errored", "cancelled", "failed"],
)
def test_the_exit_code_is_the_gates_answer(site: Site, fuseworks: Command, play: Play, code: int, words: str):
    before = site.version()
    site.answers("compare", play)
    done = fuseworks("submit", fuseworks.model(NEW), "--wait", "--against", "latest", *LIMIT)
    assert done.returncode == code
    assert words in done.stderr
    run = Run.objects.get(purpose="compare")
    assert (run.against, run.version.number) == (before, 2)
    assert f"model v2, compared with model v1: {site.url}/versions/{run.version.pk}/" in done.stderr


def test_the_version_to_compare_with_is_the_newest_other_one_a_number_or_any_id(site: Site, fuseworks: Command):
    versions = [site.version(f"# {number}\n".encode()) for number in (1, 2)]
    elsewhere = site.version(b"# 3\n", "another model")
    wanted = {"latest": versions[1], "1": versions[0], "v2": versions[1], str(elsewhere.pk): elsewhere}
    for text, version in wanted.items():
        done = fuseworks("submit", fuseworks.model(NEW), "--against", text, *LIMIT)
        assert done.returncode == 0, done.stderr
        run = Run.objects.order_by("-created_at")[0]
        assert (run.purpose, run.against, run.version.number) == ("compare", version, 3)
        assert run.gate_check.max_latency_ratio == 1.05
    # a pipeline that runs once more: the same file, and again the one before it
    assert ModelVersion.objects.filter(model__name="model").count() == 3


def test_deleted_versions_are_not_compared_with(site: Site, fuseworks: Command):
    kept = site.version(b"# 1\n")
    deleted = site.version(b"# 2\n")
    ModelVersion.objects.filter(pk=deleted.pk).update(deleted_at=deleted.created_at, storage_key="")
    assert fuseworks("submit", fuseworks.model(NEW), "--against", "latest", *LIMIT).returncode == 0
    assert Run.objects.get(purpose="compare").against == kept
    done = fuseworks("submit", "model.py", "--against", "2", *LIMIT)
    assert done.returncode == 64
    assert "the model has no version 2; it has: 3, 1" in done.stderr


@pytest.mark.parametrize(
    ("against", "words"),
    [
        ("latest", "the model has no other version yet: submit it without --against first"),
        ("7", "the model has no version 7; it has: none"),
        ("00000000-0000-0000-0000-000000000000", "core:usage:not-found"),
    ],
)
def test_without_such_a_version_nothing_is_uploaded(site: Site, fuseworks: Command, against: str, words: str):
    done = fuseworks("submit", fuseworks.model(NEW), "--wait", "--against", against, *LIMIT)
    assert done.returncode == 64
    assert words in done.stderr
    assert not ModelVersion.objects.exists()
    assert not Upload.objects.exists()  # the one that was begun is cancelled


def test_another_teams_version_is_not_there(site: Site, fuseworks: Command):
    stranger = factories.make_version(factories.make_model(factories.make_team()))
    done = fuseworks("submit", fuseworks.model(NEW), "--against", str(stranger.pk), *LIMIT)
    assert done.returncode == 64
    assert "core:usage:not-found" in done.stderr
    assert not Run.objects.exists()
