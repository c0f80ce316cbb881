"""`fuseworks cancel` against the real web site; the worker's part is played."""

from __future__ import annotations

import json
import time

import pytest

from fuseworks.runs.models import Run
from tests.client.conftest import Command
from tests.client.site import WAIT_S, Site, Turn
from tests.platform import factories

MODEL = "class Model: new\n"
pytestmark = pytest.mark.django_db(transaction=True)


def submitted(fuseworks: Command) -> str:
    done = fuseworks("submit", fuseworks.model(MODEL))
    assert done.returncode == 0, done.stderr
    return str(Run.objects.get(purpose="optimize").pk)


def status() -> str:
    return Run.objects.get(purpose="optimize").status


def claims(turn: Turn) -> None:
    turn.claim()


def obeys(turn: Turn) -> None:
    """As a worker does: it hears of it by its heartbeat, ends the work and hands in what there is."""
    turn.claim()
    turn.say("Building inductor")
    until = time.monotonic() + WAIT_S
    while Run.objects.get(pk=turn.run.pk).cancel_requested_at is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    turn.finish(factories.result_document(status="cancelled", summary="Cancelled"))


def running(fuseworks: Command) -> str:
    run = submitted(fuseworks)
    until = time.monotonic() + WAIT_S
    while status() != "running":
        assert time.monotonic() < until
        time.sleep(0.05)
    return run


def test_a_queued_run_is_cancelled_at_once(site: Site, fuseworks: Command):
    run = submitted(fuseworks)
    done = fuseworks("cancel", f"{site.url}/runs/{run}/")
    assert (done.returncode, done.stdout) == (0, "The run is cancelled.\n")
    assert status() == "cancelled"


def test_the_worker_of_a_run_at_work_is_asked(site: Site, fuseworks: Command):
    site.answers("optimize", claims)
    run = running(fuseworks)
    told = f"The run's worker was asked to end it. `fuseworks cancel {run} --wait` returns when it has.\n"
    for _ in range(2):  # asked twice is no error
        done = fuseworks("cancel", run)
        assert (done.returncode, done.stdout) == (0, told)
    assert status() == "running"
    assert Run.objects.get(pk=run).cancel_requested_at is not None


def test_with_wait_it_returns_when_the_worker_has_obeyed(site: Site, fuseworks: Command):
    site.answers("optimize", obeys)
    run = running(fuseworks)
    done = fuseworks("cancel", run, "--wait")
    assert (done.returncode, done.stdout) == (0, "The run is cancelled.\n"), done.stderr
    assert status() == "cancelled"


def test_a_worker_that_was_done_before_it_heard_of_it_is_said(site: Site, fuseworks: Command):
    def is_done_already(turn: Turn) -> None:
        turn.claim()
        until = time.monotonic() + WAIT_S
        while Run.objects.get(pk=turn.run.pk).cancel_requested_at is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        turn.finish(factories.result_document())

    site.answers("optimize", is_done_already)
    run = running(fuseworks)
    done = fuseworks("cancel", run, "--wait")
    assert (done.returncode, done.stdout) == (0, "The run ended before its worker heard of it: succeeded.\n")


@pytest.mark.parametrize(("ended", "told"), [("succeeded", "succeeded"), ("timed_out", "timed out")])
def test_a_run_that_had_ended_is_said_so(site: Site, fuseworks: Command, ended: str, told: str):
    run = submitted(fuseworks)
    Run.objects.filter(pk=run).update(status=ended)
    done = fuseworks("cancel", run, "--wait")
    assert (done.returncode, done.stdout) == (0, f"The run had ended already: {told}.\n")
    assert status() == ended


def test_json_is_the_run(site: Site, fuseworks: Command):
    run = submitted(fuseworks)
    shown = json.loads(fuseworks("cancel", run, "--json").stdout)
    assert (shown["id"], shown["status"]) == (run, "cancelled")
    again = json.loads(fuseworks("cancel", run, "--json").stdout)
    assert (again["id"], again["status"]) == (run, "cancelled")


def test_what_may_not_be_cancelled_is_64_and_an_absent_server_3(site: Site, fuseworks: Command):
    run = submitted(fuseworks)
    nobody = fuseworks("cancel", "00000000-0000-4000-8000-000000000000")
    assert (nobody.returncode, "core:usage:not-found" in nobody.stderr) == (64, True)
    viewer = factories.make_token(factories.make_member(site.team, "viewer"))
    refused = fuseworks("cancel", run, FUSEWORKS_TOKEN=viewer)
    assert (refused.returncode, "core:usage:forbidden" in refused.stderr) == (64, True)
    assert fuseworks("cancel", "no id").returncode == 64
    away = fuseworks("cancel", run, FUSEWORKS_URL="http://127.0.0.1:1", FUSEWORKS_RETRY_S="0")
    assert away.returncode == 3
    assert status() == "queued"


def test_its_help_has_its_exit_codes(fuseworks: Command):
    text = fuseworks("cancel", "--help").stdout
    assert "Exit codes:" in text
    assert "fuseworks cancel" in text
    assert "cancel " in fuseworks("--help").stdout
