"""examples/ci/story.sh and gate.sh as a pipeline runs them, against the real web site; the worker's part is played."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fuseworks.accounts.models import Team
from fuseworks.recipes.models import RecipeVersion
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from tests.client.conftest import ROOT, Command
from tests.client.site import Play, Site, ends, problem
from tests.platform import factories
from tests.platform.recipes.documents import document as recipe_document
from tests.platform.results.support import compared, packaging_run

SCRIPTS = ROOT / "examples" / "ci"
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="the scripts need curl and jq"),
]


class Scripts:
    """Runs a script with the environment of a pipeline: what it needs, and nothing of the tester's own."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._folder = folder
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TMPDIR": str(folder),
            "FUSEWORKS_URL": f"{site.url}/",
            "FUSEWORKS_TOKEN": site.token,
            "TEAM": site.team.slug,
            "MODEL": self.file("my model.py", b"class Model: new\n"),
        }

    def file(self, name: str, content: bytes) -> str:
        (self._folder / name).write_bytes(content)
        return str(self._folder / name)

    def __call__(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPTS / script],
            env={**self.environment, **environment},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def scripts(site: Site, tmp_path: Path) -> Scripts:
    return Scripts(site, tmp_path)


@pytest.fixture
def other(scripts: Scripts) -> Team:
    """A team of another business unit."""
    team = factories.make_team("search")
    scripts.environment |= {
        "OTHER_TOKEN": factories.make_token(factories.make_member(team), scopes=("read", "submit")),
        "OTHER_TEAM": team.slug,
        "OTHER_MODEL": scripts.file("other.py", b"class Model: of others\n"),
    }
    return team


def speedup(low: float, high: float) -> Play:
    def document(run: Run) -> dict[str, Any]:
        assert run.against is not None
        return compared(run.against, low=low, high=high)

    return ends(document)


def test_the_story_from_upload_to_the_evidence_of_another_unit(site: Site, scripts: Scripts, other: Team):
    site.answers("optimize", factories.result_document(recipe=recipe_document()))
    site.answers("replay", factories.result_document(purpose="replay", speedup=1.25))
    done = scripts("story.sh", BUDGET_S="90")
    assert done.returncode == 0, done.stderr
    run = Run.objects.get(purpose="optimize")
    assert done.stdout.splitlines() == [
        f"==> Uploading {scripts.environment['MODEL']} for ads-ranking",
        f"==> Run {site.url}/runs/{run.pk}/",
        "==> 2.00 times as fast",
        "    before 8.00 ms, after 4.00 ms",
        "==> Saving and publishing the recipe",
        "    din-split 1.0.0 is published",
        "==> search finds it",
        f"==> and applies it to {scripts.environment['OTHER_MODEL']}",
        "==> The evidence, as ads-ranking sees it (models of other teams without their names)",
        "    faster 1.25x (a model of another team: other)",
        "    faster 2.00x my model v1",
    ]
    assert "  [   1.5 s] compiling     Building inductor" in done.stderr
    assert (run.policy["budget_s"], run.version.filename) == (90.0, "my model.py")
    assert Run.objects.get(purpose="replay").team == other
    assert RecipeVersion.objects.get().recipe.visibility == "company"

    # once more, as pipelines do: the same files are no new versions
    again = scripts("story.sh")
    assert again.returncode == 0, again.stderr
    assert "    din-split 1.0.0 is published" in again.stdout
    assert RecipeVersion.objects.get().evidence.count() == 4
    assert ModelVersion.objects.count() == 2


def test_the_story_ends_well_where_nothing_faster_was_found(site: Site, scripts: Scripts, other: Team):
    site.answers("optimize", factories.result_document(summary="No faster recipe found", verdict="same"))
    done = scripts("story.sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "==> There is no recipe to share: nothing faster was found"


def test_a_recipe_that_is_refused_elsewhere_is_evidence_too(site: Site, scripts: Scripts, other: Team):
    refused = problem("user", "No pass of it matches the graph.", id_="replay:user:does-not-apply")
    site.answers("optimize", factories.result_document(recipe=recipe_document()))
    site.answers("replay", {**refused, "purpose": "replay"})
    done = scripts("story.sh")
    assert done.returncode == 0, done.stderr
    assert "    refused no speedup (a model of another team: other)" in done.stdout
    assert "The run is failed. No pass of it matches the graph. Mend it." in done.stderr


@pytest.mark.parametrize(("side", "code"), [("user", 4), ("ours", 3)])
def test_the_story_ends_with_the_code_of_whose_fault_it_is(
    site: Site, scripts: Scripts, other: Team, side: str, code: int
):
    site.answers("optimize", problem(side))
    done = scripts("story.sh")
    assert done.returncode == code
    assert "torch.export cannot trace this" in done.stderr


@pytest.mark.parametrize(
    ("play", "code", "words"),
    [
        (speedup(0.97, 1.01), 0, "pass: latency_ratio 1.010 [0.990, 1.031], at most 1.05 allowed"),
        (speedup(0.80, 0.90), 1, "fail: latency_ratio 1.179 [1.111, 1.250], at most 1.05 allowed"),
        (speedup(0.90, 1.00), 2, "cannot_tell: latency_ratio 1.054 [1.000, 1.111], at most 1.05 allowed"),
        (ends({**problem("ours"), "purpose": "compare"}), 3, "no_result: torch.export cannot trace this (as uploaded)"),
        (ends({**problem("user"), "purpose": "compare"}), 4, "no_result: torch.export cannot trace this (as uploaded)"),
    ],
    ids=["pass", "too slow", "cannot tell", "errored", "failed"],
)
def test_the_gates_exit_code_is_its_answer(site: Site, scripts: Scripts, play: Play, code: int, words: str):
    before = site.version(b"class Model: old\n", "my model")
    site.answers("compare", play)
    done = scripts("gate.sh", RATIO="1.05")
    assert done.returncode == code, done.stderr
    run = Run.objects.get(purpose="compare")
    assert done.stdout.splitlines()[0] == f"{site.url}/runs/{run.pk}/"
    assert (run.against, run.version.number) == (before, 2)
    assert words in done.stdout
    assert len(done.stdout.splitlines()) == 2
    assert ("The run is" in done.stderr) == (code > 2)


def test_the_gate_compares_the_same_file_again_with_the_newest_other_version(site: Site, scripts: Scripts):
    first = site.version(b"class Model: old\n", "my model")
    second = site.version(b"class Model: new\n", "my model")
    site.answers("compare", speedup(1.0, 1.0))
    assert scripts("gate.sh").returncode == 0
    assert scripts("gate.sh", AGAINST=str(second.pk), RATIO="2").returncode == 0
    compared_with = Run.objects.filter(purpose="compare").order_by("created_at").values_list("against", "version")
    assert list(compared_with) == [(first.pk, second.pk), (second.pk, second.pk)]
    assert ModelVersion.objects.count() == 2


def test_what_is_no_answer_of_a_gate_never_ends_with_1_or_2(site: Site, scripts: Scripts):
    alone = scripts("gate.sh")
    assert (alone.returncode, "no other version yet" in alone.stderr) == (64, True)
    unset = scripts("gate.sh", TEAM="")
    assert (unset.returncode, "gate.sh: set TEAM" in unset.stderr) == (64, True)
    token = scripts("gate.sh", FUSEWORKS_TOKEN="fw_nobodys")
    assert (token.returncode, "accounts:usage:bad-token" in token.stderr) == (64, True)
    file = scripts("gate.sh", MODEL=scripts.file("model.txt", b"a text\n"))
    assert (file.returncode, "registry:user:unknown-format" in file.stderr) == (4, True)
    absent = scripts("gate.sh", MODEL="absent.py")
    assert absent.returncode == 3
    ratio = scripts("gate.sh", RATIO="much", AGAINST=str(ModelVersion.objects.get().pk))
    assert ratio.returncode == 64
    seconds = scripts("gate.sh", RETRY_S="soon")
    assert (seconds.returncode, "RETRY_S is a number of seconds" in seconds.stderr) == (64, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    away = scripts("gate.sh", FUSEWORKS_URL=f"http://127.0.0.1:{port}", RETRY_S="0")
    assert (away.returncode, "curl:" in away.stderr) == (3, True)


def test_they_need_bash_curl_and_jq_and_nothing_of_python(site: Site, scripts: Scripts, tmp_path: Path):
    site.version(b"class Model: old\n", "my model")
    site.answers("compare", speedup(1.0, 1.0))
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("bash", "basename", "cat", "curl", "dirname", "jq", "mktemp", "od", "rm", "tr"):
        (folder / program).symlink_to(shutil.which(program) or program)
    done = scripts("gate.sh", PATH=str(folder))
    assert done.returncode == 0, done.stderr
    (folder / "jq").unlink()
    without = scripts("gate.sh", PATH=str(folder))
    assert (without.returncode, "gate.sh: needs jq, which is not here" in without.stderr) == (3, True)


def test_the_token_stands_in_no_argument(site: Site, scripts: Scripts, tmp_path: Path):
    """Arguments can be read by everybody on the machine."""
    real = shutil.which("curl")
    spy = tmp_path / "bin" / "curl"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>"{tmp_path}/arguments"\nexec "{real}" "$@"\n')
    spy.chmod(0o755)
    site.version(b"class Model: old\n", "my model")
    site.answers("compare", speedup(1.0, 1.0))
    assert scripts("gate.sh", PATH=f"{spy.parent}:{scripts.environment['PATH']}").returncode == 0
    arguments = (tmp_path / "arguments").read_text()
    assert "Content-Type: application/json" in arguments
    assert len(re.findall(r"^Idempotency-Key: [0-9a-f]{32}$", arguments, re.MULTILINE)) == 1  # of the one POST
    assert site.token not in arguments


def test_the_scripts_and_the_command_answer_alike(site: Site, scripts: Scripts, fuseworks: Command):
    site.version(b"class Model: old\n", "my model")
    site.answers("compare", speedup(0.80, 0.90))
    by_curl = scripts("gate.sh").returncode
    arguments = ("--wait", "--against", "latest", "--max-latency-ratio", "1.05")
    by_command = fuseworks("submit", scripts.environment["MODEL"], *arguments).returncode
    assert (by_curl, by_command) == (1, 1)


def test_what_the_gate_measures_is_said_and_can_be_asked_for(site: Site, scripts: Scripts):
    source = packaging_run(site.version(b"class Model: old\n", "my model"))
    site.answers("compare", speedup(0.97, 1.01))
    done = scripts("gate.sh")
    assert (done.returncode, "1.05 allowed (as packaged)" in done.stdout) == (0, True)
    assert Run.objects.get(purpose="compare").recipe_run == source
    done = scripts("gate.sh", AS="uploaded")
    assert (done.returncode, "1.05 allowed (as uploaded)" in done.stdout) == (0, True)
