"""`fuseworks submit ... --as`: what a gate measures, and that the command says which it was."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.runs.models import Run
from tests.client.conftest import Command
from tests.client.site import Site, ends, problem
from tests.platform.results.support import RECIPE, compared, packaging_run

NEW = "class Model: new\n"
GATE = ("--wait", "--against", "latest", "--max-latency-ratio", "1.05")
pytestmark = pytest.mark.django_db(transaction=True)


def measured(run: Run) -> dict[str, Any]:
    assert run.against is not None
    packaged = run.compared_as == "packaged"
    told = {"compared_as": run.compared_as, "recipe": RECIPE if packaged else None}
    return compared(run.against, low=0.97, high=1.01, **told)


def test_by_default_what_the_version_before_is_deployed_as_is_compared(site: Site, fuseworks: Command):
    before = site.version()
    site.answers("compare", ends(measured))
    done = fuseworks("submit", fuseworks.model(NEW), *GATE)
    assert done.returncode == 0
    assert "Both are measured as uploaded: no run of the other version left a package for this workload" in done.stderr
    assert "Gate: pass, as uploaded. latency_ratio" in done.stderr
    assert "both as uploaded: each as its own framework runs it" in done.stdout

    source = packaging_run(before)
    done = fuseworks("submit", "model.py", *GATE)
    assert done.returncode == 0
    assert f"Both are measured as packaged, by the steps of {site.url}/runs/{source.pk}/" in done.stderr
    assert "Gate: pass, as packaged. latency_ratio" in done.stderr
    assert "both as packaged: built by the steps of din-openvino" in done.stdout


def test_packages_that_are_not_there_are_a_usage_error_and_no_run(site: Site, fuseworks: Command):
    site.version()
    done = fuseworks("submit", fuseworks.model(NEW), *GATE, "--as", "packaged")
    assert done.returncode == 64
    assert "no run of model v1 left a package for this workload and target" in done.stderr
    assert not Run.objects.filter(purpose="compare").exists()


def test_uploads_are_compared_where_that_is_said(site: Site, fuseworks: Command):
    packaging_run(site.version())
    site.answers("compare", ends(measured))
    done = fuseworks("submit", fuseworks.model(NEW), *GATE, "--as", "uploaded")
    assert (done.returncode, "Both are measured as uploaded." in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("side", "code", "words"),
    [("after", 4, "Gate: no result, as packaged."), ("before", 2, "Gate: cannot tell, as packaged.")],
)
def test_steps_that_do_not_fit_one_side_pass_no_gate(site: Site, fuseworks: Command, side: str, code: int, words: str):
    packaging_run(site.version())
    refused = problem("user", "model.py cannot be packaged: no match", id_=f"compare:user:{side}-not-packaged")
    site.answers("compare", {**refused, "purpose": "compare"})
    done = fuseworks("submit", fuseworks.model(NEW), *GATE)
    assert done.returncode == code
    assert words in done.stderr and "model.py cannot be packaged: no match" in done.stderr


def test_it_says_how_two_are_compared_and_needs_two(site: Site, fuseworks: Command):
    done = fuseworks("submit", fuseworks.model(NEW), "--as", "packaged")
    assert (done.returncode, "--as needs --against" in done.stderr) == (64, True)


def test_the_help_says_what_each_means(fuseworks: Command):
    helped = fuseworks("submit", "--help")
    assert "--as [auto|packaged|uploaded]" in helped.stdout and "which is how it is deployed" in helped.stdout
