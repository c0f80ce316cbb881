"""submit, follow, package, recipe and compare against the real web site; the worker's part is played."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
import yaml
from django.utils import timezone

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import Actor
from fuseworks.registry.models import ModelVersion, Workload
from fuseworks.runs.models import Run
from fuseworks.runs.services import run_cancel
from fuseworks_client import options
from optimizer.spec import SHORT_BUDGET_S
from tests.client.conftest import Command
from tests.client.site import Site, Turn, problem
from tests.platform import factories
from tests.platform.recipes.documents import document as recipe_document
from tests.platform.results import support
from tests.platform.runs.steps import worker_row

OLD = "class Model: old\n"
PACKAGE = b"PK\x03\x04 bytes that nobody opens here"
pytestmark = pytest.mark.django_db(transaction=True)


def found_something(turn: Turn) -> None:
    turn.claim()
    turn.say("Building inductor")
    turn.leave("package.zip", PACKAGE)
    turn.leave("log.txt", b"all of it\n")
    kept = {"name": "package", "path": "somewhere/package.zip", "size_bytes": 1, "sha256": "0" * 64}
    turn.finish(factories.result_document(recipe=recipe_document(), artifacts=[kept]))


def test_submit_without_wait_prints_the_address_and_leaves_a_queued_run(site: Site, fuseworks: Command):
    done = fuseworks("submit", fuseworks.model(OLD), "--budget", "90s", "--backend", "inductor")
    assert done.returncode == 0, done.stderr
    run = Run.objects.get(purpose="optimize")
    assert done.stdout == f"{site.url}/runs/{run.pk}/\n"
    assert (run.status, run.team, run.created_by) == ("queued", site.team, site.user)
    assert (run.policy["budget_s"], run.policy["backends"]) == (90.0, ["inductor"])
    assert (run.version.model.name, run.version.number, run.version.filename) == ("model", 1, "model.py")
    assert "Uploading model.py: 17 of 17 bytes" in done.stderr
    assert f"model v1: {site.url}/versions/{run.version.pk}/" in done.stderr

    shown = fuseworks("submit", "model.py", "--name", "Another", "--json")
    row = json.loads(shown.stdout)
    assert (row["model_name"], row["status"]) == ("Another", "queued")


def test_submit_and_wait_shows_the_answer_and_leaves_the_files(site: Site, fuseworks: Command):
    site.answers("optimize", found_something)
    done = fuseworks("submit", fuseworks.model(OLD), "--wait", "--out", "out")
    assert done.returncode == 0, done.stderr
    run = Run.objects.get(purpose="optimize")
    assert f"Run {run.pk}: {site.url}/runs/{run.pk}/" in done.stderr
    assert "[    1.5 s] compiling     Building inductor" in done.stderr
    text = " ".join(done.stdout.split())
    assert "8.00 ms before, 4.00 ms after" in text
    assert "2.00x (99 % interval 1.90 to 2.10)" in text
    assert "package out/package.zip" in text  # where it lies here, not where the worker had it
    assert "\x1b" not in done.stdout + done.stderr
    out = fuseworks.folder / "out"
    assert sorted(path.name for path in out.iterdir()) == ["log.txt", "package.zip", "result.json"]
    assert json.loads((out / "result.json").read_text())["speedup"] == 2.0
    assert (out / "package.zip").read_bytes() == PACKAGE


def test_the_very_same_file_is_not_uploaded_again_and_json_is_all_there_is_on_stdout(site: Site, fuseworks: Command):
    site.answers("optimize", found_something)
    version = site.version(OLD.encode(), "My Model")
    done = fuseworks("submit", fuseworks.model(OLD), "--name", "my model", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["winner"] == "inductor"
    assert "its version is used" in done.stderr
    assert "Uploading" not in done.stderr
    assert [run.version for run in site.runs["optimize"]] == [version]
    assert "inspect" not in site.runs
    assert ModelVersion.objects.count() == 1


def test_a_file_that_the_server_has_is_used_even_when_the_team_has_no_room_left(site: Site, fuseworks: Command):
    site.answers("optimize", found_something)
    version = site.version(OLD.encode())
    Team.objects.update(quota_bytes=version.size_bytes)
    refused = fuseworks("submit", fuseworks.model(OLD + "# and more"))
    assert "has used" in refused.stderr and refused.returncode != 0
    done = fuseworks("submit", fuseworks.model(OLD), "--wait")
    assert done.returncode == 0, done.stderr
    assert [run.version for run in site.runs["optimize"]] == [version]


@pytest.mark.parametrize(("side", "code", "heading"), [("user", 4, "The model's fault"), ("ours", 3, "Fuseworks' or")])
def test_a_run_that_did_not_succeed_says_why_and_whose_fault_it_is(
    site: Site, fuseworks: Command, side: str, code: int, heading: str
):
    site.answers("optimize", problem(side, "cannot trace [bold]this"))
    done = fuseworks("submit", fuseworks.model(OLD), "--wait", "--json")
    assert done.returncode == code
    assert heading in done.stderr
    assert "cannot trace [bold]this" in done.stderr
    assert f"capturing:{side}:x" in done.stderr
    assert "model.py:4" in done.stderr
    assert "Mend it." in done.stderr
    assert json.loads(done.stdout)["problem"]["side"] == side


def test_a_target_that_no_worker_serves_and_a_short_budget_are_told_and_queued(site: Site, fuseworks: Command):
    done = fuseworks("submit", fuseworks.model(OLD), "--target", "cuda:sm_90", "--budget", "1s")
    assert done.returncode == 0, done.stderr
    assert "No worker serves cuda:sm_90 at the moment. The run waits in the queue until one does." in done.stderr
    assert "1 s are a short budget: below 60 s a run rarely comes to a verdict." in done.stderr
    assert Run.objects.get(purpose="optimize").status == "queued"

    worker_row(target="cuda:sm_90", seen=timezone.now())
    served = fuseworks("submit", "model.py", "--target", "cuda:sm_90", "--budget", "60s")
    assert served.returncode == 0 and "No worker" not in served.stderr and "short budget" not in served.stderr


def test_the_command_calls_the_same_budget_short_as_the_optimizer():
    assert options.SHORT_BUDGET_S == SHORT_BUDGET_S


def test_a_model_whose_inspection_fails_ends_with_its_cause_and_is_not_worked_on_again(site: Site, fuseworks: Command):
    site.answers("inspect", problem("user", "No single graph."))
    for _ in ("uploaded: the run is refused, or ended in the queue", "there already: it is refused"):
        done = fuseworks("submit", fuseworks.model(OLD), "--wait")
        assert done.returncode == 4
        assert "is not run, because its inspection failed: No single graph." in " ".join(done.stderr.split())
        assert "model.py:4" in done.stderr
    assert [run.attempt for run in Run.objects.filter(purpose="optimize")] in ([], [0])
    assert not Run.objects.filter(status="queued").exists()


def test_a_run_that_is_cancelled_is_code_3(site: Site, fuseworks: Command):
    site.answers("optimize", lambda turn: run_cancel(actor=Actor(site.user), run=turn.run) and None)
    done = fuseworks("submit", fuseworks.model(OLD), "--wait", "--json")
    assert done.returncode == 3
    assert "The run was cancelled." in done.stderr
    assert json.loads(done.stdout) == {"purpose": "optimize", "status": "cancelled", "problem": None}


def test_with_two_teams_it_asks_for_one_before_anything_is_sent(site: Site, fuseworks: Command):
    factories.make_member(factories.make_team("search"), "member", site.user)
    factories.make_member(factories.make_team("only-read"), "viewer", site.user)
    done = fuseworks("submit", fuseworks.model(OLD))
    assert done.returncode == 64
    assert "say whose model it is with --team: ads-ranking, search" in done.stderr
    assert not ModelVersion.objects.exists()
    assert fuseworks("submit", "model.py", "--team", "search").returncode == 0
    assert ModelVersion.objects.get().model.team.slug == "search"
    # a token of one team needs no word of it
    of_one = factories.make_token(site.user, site.team)
    assert fuseworks("submit", "model.py", FUSEWORKS_TOKEN=of_one).returncode == 0
    assert Run.objects.filter(purpose="optimize", team=site.team).count() == 1


def test_a_problem_of_the_server_is_shown_with_id_and_remedy(site: Site, fuseworks: Command):
    done = fuseworks("submit", fuseworks.model(OLD, "model.txt"))
    assert done.returncode == 4
    assert "registry:user:unknown-format" in done.stderr
    assert "Anything else: export it to ONNX." in " ".join(done.stderr.split())
    reader = factories.make_token(site.user, scopes=("read",))
    refused = fuseworks("submit", fuseworks.model(OLD), FUSEWORKS_TOKEN=reader)
    assert refused.returncode == 64
    assert "This API token has no scope submit." in refused.stderr
    assert "core:usage:token-scope" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "out"], "--out needs --wait"),
        (["--wait", "--out", "model.py"], "model.py"),
        (["--workload", "list.yaml"], "must hold a mapping"),
        (["--against", "latest"], "go together"),
        (["--against", "newest", "--max-latency-ratio", "1"], "neither `latest` nor a version's number or id"),
        (["--max-latency-ratio", "0", "--against", "1"], "0.0 is not in the range"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_sent(
    site: Site, fuseworks: Command, arguments: list[str], words: str
):
    (fuseworks.folder / "list.yaml").write_text("[1, 2]\n")
    done = fuseworks("submit", fuseworks.model(OLD), *arguments)
    assert done.returncode == 64
    assert words in done.stderr
    assert not ModelVersion.objects.exists()


def test_a_workload_becomes_the_runs_own(site: Site, fuseworks: Command):
    (fuseworks.folder / "w.yaml").write_text("inputs: [{name: x, dtype: float32, shape: [4, 2]}]\n")
    assert fuseworks("submit", fuseworks.model(OLD), "--workload", "w.yaml").returncode == 0
    run = Run.objects.get(purpose="optimize")
    assert run.workload == Workload.objects.get()
    assert run.workload.document["inputs"][0]["shape"] == [4, 2]
    (fuseworks.folder / "w.yaml").write_text("inputs: [{name: x, dtype: float33, shape: [4, 2]}]\n")
    done = fuseworks("submit", "model.py", "--workload", "w.yaml")
    assert done.returncode == 4
    assert "registry:user:workload" in done.stderr


def test_follow_takes_an_id_or_an_address_even_of_a_run_that_is_over(site: Site, fuseworks: Command):
    run = support.finished_run(factories.result_document(), site.version())
    for text in (str(run.pk), f"{site.url}/runs/{run.pk}/", f"{site.url}/runs/{run.pk}/comparison/"):
        done = fuseworks("follow", text)
        assert done.returncode == 0, done.stderr
        assert "2.00x (99 % interval 1.90 to 2.10)" in done.stdout
    assert fuseworks("follow", "that one").returncode == 64
    stranger = fuseworks("follow", "0" * 8 + "-0000-0000-0000-" + "0" * 12)
    assert stranger.returncode == 64
    assert "core:usage:not-found" in stranger.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_it_waits_it_ends_with_130_and_the_run_goes_on(
    site: Site, fuseworks: Command, how: signal.Signals
):
    def works(turn: Turn) -> None:
        turn.claim()
        turn.say("Building inductor")

    site.answers("optimize", works)
    process = fuseworks.start("submit", fuseworks.model(OLD), "--wait")
    assert process.stderr is not None
    for line in process.stderr:
        if "Building inductor" in line:
            break
    process.send_signal(how)
    _, error = process.communicate(timeout=30)
    run = Run.objects.get(purpose="optimize")
    assert process.returncode == 130
    assert f"Interrupted; the run goes on. `fuseworks follow {run.pk}` takes it up again." in error
    assert (run.status, run.cancel_requested_at) == ("running", None)


def test_package_downloads_it_under_the_given_name(site: Site, fuseworks: Command):
    site.answers("optimize", found_something)
    assert fuseworks("submit", fuseworks.model(OLD), "--wait").returncode == 0
    run = Run.objects.get(purpose="optimize")
    done = fuseworks("package", str(run.pk), "--out", "deploy/model.zip")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"deploy/model.zip: {len(PACKAGE)} bytes\n"
    assert [path.name for path in (fuseworks.folder / "deploy").iterdir()] == ["model.zip"]
    assert (fuseworks.folder / "deploy" / "model.zip").read_bytes() == PACKAGE


def test_without_a_package_it_says_how_the_run_stands(site: Site, fuseworks: Command):
    run = factories.make_run(site.version())
    done = fuseworks("package", f"{site.url}/runs/{run.pk}/")
    assert done.returncode == 64
    assert "the run left no package (it is queued)" in done.stderr
    assert not (fuseworks.folder / "package.zip").exists()


def test_what_cannot_be_written_here_is_this_machines_fault(site: Site, fuseworks: Command):
    site.answers("optimize", found_something)
    assert fuseworks("submit", fuseworks.model(OLD), "--wait").returncode == 0
    run = Run.objects.get(purpose="optimize")
    done = fuseworks("package", str(run.pk), "--out", "model.py/package.zip")
    assert done.returncode == 3
    assert "model.py" in done.stderr
    assert "client:ours:files" in done.stderr


@pytest.fixture
def published(site: Site) -> Any:
    from fuseworks.recipes.services import recipe_save_from_run, version_publish

    run = support.finished_run(factories.result_document(recipe=recipe_document()), site.version(b"# its own\n", "din"))
    saved = recipe_save_from_run(actor=Actor(site.user), run=run).version
    return version_publish(actor=Actor(site.user), recipe_version=saved, visibility="company")


def test_recipe_list_searches_and_get_fetches_the_file(site: Site, fuseworks: Command, published: Any):
    listed = fuseworks(
        "recipe", "list", "--search", "attention", "--min-gain", "1.8", "--pass", "split_target_attention"
    )
    row = listed.stdout.splitlines()[1].split()
    assert row == [str(published.pk), "din-split", "1.0.0", "cpu", "aot_inductor", "1.90x"]
    assert fuseworks("recipe", "list", "--min-gain", "2").stdout == "No recipe fits.\n"
    rows = json.loads(fuseworks("recipe", "list", "--json").stdout)
    assert [(found["id"], found["best_gain"]) for found in rows] == [(str(published.pk), 1.9)]

    assert fuseworks("recipe", "get", str(published.pk), "--out", "kept/recipe.yaml").returncode == 0
    text = (fuseworks.folder / "kept" / "recipe.yaml").read_text()
    assert yaml.safe_load(text)["metadata"]["name"] == "din-split"
    assert fuseworks("recipe", "get", str(published.pk)).stdout == text


def test_recipe_apply_replays_it_and_its_outcome_is_evidence(site: Site, fuseworks: Command, published: Any):
    version = site.version(b"# another\n", "dlrm")
    site.answers("replay", factories.result_document(purpose="replay"))
    done = fuseworks("recipe", "apply", str(published.pk), f"{site.url}/versions/{version.pk}/", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["purpose"] == "replay"
    run = Run.objects.get(purpose="replay")
    assert (run.version, run.recipe_version) == (version, published)
    assert published.evidence.get(run=run).outcome == "faster"
    early = fuseworks("recipe", "apply", str(published.pk), str(version.pk), "--json")
    assert early.returncode == 64
    assert "need --wait" in early.stderr


def test_compare_puts_two_runs_beside_each_other(site: Site, fuseworks: Command):
    base = support.finished_run(factories.result_document(), site.version(b"# 1\n"))
    other = support.finished_run(factories.result_document(speedup=3.0, best_ms=2.667), site.version(b"# 2\n"))
    done = fuseworks("compare", str(base.pk), f"{site.url}/runs/{other.pk}/")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "model v1 8.00 ms 4.00 ms 2.00x (99 % interval 1.90 to 2.10) faster" in text
    assert "model v2 8.00 ms 2.67 ms 3.00x" in text
    assert f"speedup of {other.pk} / that of {base.pk}: 1.50" in text
    assert "These runs were not measured together" in text


def test_runs_of_unequal_conditions_are_not_compared_and_the_difference_is_shown(site: Site, fuseworks: Command):
    elsewhere = factories.result_document()
    elsewhere["conditions"] = {"fixed": {"device": "a CPU", "cores": 64}, "observed": {}, "fingerprint": "cd" * 32}
    base = support.finished_run(factories.result_document(), site.version(b"# 1\n"))
    other = support.finished_run(elsewhere, site.version(b"# 2\n"))
    done = fuseworks("compare", str(base.pk), str(other.pk))
    assert done.returncode == 64
    text = " ".join(done.stdout.split())
    assert "not measured under equal conditions" in text
    assert "conditions.cores 2 64" in text
    assert "2.00x" not in text
    shown = fuseworks("compare", str(base.pk), str(other.pk), "--json")
    assert (shown.returncode, json.loads(shown.stdout)["comparable"]) == (64, False)


def test_of_a_run_that_judged_nothing_only_that_is_said(site: Site, fuseworks: Command):
    nothing = {**factories.result_document(), "speedup": None, "speedup_ci": None, "verdict": None, "conditions": None}
    base = support.finished_run(factories.result_document(), site.version(b"# 1\n"))
    other = support.finished_run(nothing, site.version(b"# 2\n"))
    done = fuseworks("compare", str(base.pk), str(other.pk))
    assert done.returncode == 64
    assert done.stdout == f"Nothing was judged in {other.pk}: there is no speedup to put beside another.\n"


def test_a_run_and_a_file_are_not_compared(site: Site, fuseworks: Command):
    run = support.finished_run(factories.result_document(), site.version(b"# 1\n"))
    done = fuseworks("compare", fuseworks.model(OLD), str(run.pk))
    assert done.returncode == 64
    assert "does not exist" in done.stderr


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_output_that_nobody_reads_changes_no_exit_code(site: Site, fuseworks: Command, arguments: list[str]):
    site.answers("optimize", {**problem("user"), "candidates": support.document("din")["candidates"]})
    with fuseworks.start("submit", fuseworks.model(OLD), "--wait", *arguments) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=30) == 4
