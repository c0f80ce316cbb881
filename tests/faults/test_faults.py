"""Whatever dies, freezes or gets lost: every run ends exactly once, nothing is lost, and nothing stale is written."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from tests.faults.stack import QUEUE, Stack
from tests.workers.fake_platform import alive, wait_until


def coordinators(pids: list[int]) -> list[int]:
    return [pid for pid in pids if "fake_coordinator.py" in " ".join(psutil.Process(pid).cmdline()[:4])]


def test_without_faults_a_run_takes_one_attempt(stack: Stack) -> None:
    stack.worker("a")
    run = stack.create("quick")
    stack.wait_for_end([run])
    stack.assert_ended_once(run)
    assert [attempt["worker"] for attempt in stack.attempts(run)] == ["a"]


def test_a_killed_workers_run_is_done_by_another(stack: Stack) -> None:
    a = stack.worker("a")
    run = stack.create("two seconds")
    stack.wait_for_work(run)
    a.kill()
    stack.worker("b")
    stack.wait_for_end([run])
    stack.assert_ended_once(run)
    assert [(one["worker"], one["state"]) for one in stack.claimed(run)] == [("a", "expired"), ("b", "ended")]


def test_a_worker_that_comes_back_after_a_kill_takes_away_what_it_left(stack: Stack) -> None:
    a = stack.worker("a")
    run = stack.create("two seconds")
    stack.wait_for_work(run)
    a.kill()
    scratch = stack.folder / "scratch-a"
    assert len(list(scratch.glob("run-*"))) == 1
    stack.worker("a")
    assert not list(scratch.glob("run-*"))
    stack.wait_for_end([run])
    stack.assert_ended_once(run)


def test_a_frozen_worker_is_replaced_and_its_late_answer_refused(stack: Stack) -> None:
    """The coordinator comes to its end while its worker is frozen: the answer is there, and must not be written."""
    a = stack.worker("a")
    run = stack.create("second")
    stack.wait_for_work(run)
    a.freeze()
    stack.worker("b")
    stack.wait_for_end([run])
    before = stack.run(run)
    a.thaw()
    wait_until(lambda: "is not this worker's (any more)" in a.text())
    stack.assert_ended_once(run)
    assert stack.run(run) == before
    assert [one["worker"] for one in stack.claimed(run)] == ["a", "b"]
    assert a.is_running()


def test_a_frozen_workers_coordinator_ends_with_the_lease_and_the_worker_works_on_after_it(stack: Stack) -> None:
    a = stack.worker("a")
    run = stack.create("hang")
    stack.wait_for_work(run)
    left = a.descendants()
    assert left and all(alive(pid) for pid in left)
    a.freeze()
    wait_until(lambda: not any(alive(pid) for pid in left if pid not in _zombies(a.pid)))
    wait_until(lambda: stack.run(run)["status"] == "queued")
    stack.api("POST", f"runs/{run}/cancel/")
    a.thaw()
    other = stack.create("quick")
    stack.wait_for_end([run, other])
    assert stack.run(run)["status"] == "cancelled"
    stack.assert_ended_once(other)
    assert [one["worker"] for one in stack.attempts(other) if one["state"] == "ended"] == ["a"]


def _zombies(parent: int) -> list[int]:
    """A frozen parent collects nobody."""
    found = psutil.Process(parent).children()
    return [child.pid for child in found if child.status() == psutil.STATUS_ZOMBIE]


def test_workers_that_are_cut_off_stop_and_their_run_is_done_again(stack: Stack) -> None:
    a = stack.worker("a")
    run = stack.create("eight seconds")  # more than the lease
    stack.wait_for_work(run)
    left = a.descendants()
    assert stack.web is not None
    stack.web.freeze()
    try:
        wait_until(lambda: not any(alive(pid) for pid in left))
        wait_until(lambda: stack.run(run)["status"] == "queued")
    finally:
        stack.web.thaw()
    stack.wait_for_end([run])
    stack.assert_ended_once(run)
    assert [one["state"] for one in stack.claimed(run)] == ["expired", "ended"]


def test_a_web_site_that_starts_anew_within_the_lease_costs_nothing(stack: Stack) -> None:
    with stack.lease(60):
        stack.worker("a")
        run = stack.create("five seconds")
        stack.wait_for_work(run)
        assert stack.web is not None
        stack.web.kill()
        stack.start_web()
        stack.wait_for_end([run])
    stack.assert_ended_once(run)
    assert [one["state"] for one in stack.claimed(run)] == ["ended"]
    # 50 steps and the word before them: none was lost while nobody listened, none is there twice
    events = stack.rows("SELECT message FROM runs_runevent WHERE run_id = %s ORDER BY number", run)
    assert [event["message"] for event in events] == ["Capturing the graph", *(f"Step {n}" for n in range(50))]


def test_a_killed_coordinator_ends_its_run_as_our_error_and_not_its_worker(stack: Stack) -> None:
    a = stack.worker("a")
    run = stack.create("hang")
    stack.wait_for_work(run)
    left = a.descendants()
    (victim,) = coordinators(left)
    os.kill(victim, signal.SIGKILL)
    stack.wait_for_end([run])
    stack.assert_ended_once(run, "errored")
    assert stack.run(run)["problem"]["id"] == "worker:ours:coordinator-died"
    wait_until(lambda: not any(alive(pid) for pid in left))
    other = stack.create("quick")
    stack.wait_for_end([other])
    stack.assert_ended_once(other)


def test_a_cancelled_run_ends_once_and_keeps_what_it_had(stack: Stack) -> None:
    a = stack.worker("a")
    run = stack.create("hang")
    stack.wait_for_work(run)
    left = a.descendants()
    stack.api("POST", f"runs/{run}/cancel/")
    stack.wait_for_end([run])
    stack.assert_ended_once(run, "cancelled")
    assert stack.run(run)["summary"] == "half done"
    wait_until(lambda: not any(alive(pid) for pid in left))


def test_a_message_that_the_broker_lost_is_sent_again(stack: Stack) -> None:
    a = stack.worker("a")
    stack.freeze_idle(a)
    run = stack.create("quick")
    wait_until(lambda: len(stack.queued_messages()) == 1)
    stack.broker().flushall()
    a.thaw()
    stack.wait_for_end([run])
    stack.assert_ended_once(run)
    assert [one["state"] for one in stack.attempts(run)] == ["unclaimed", "ended"]


def test_a_broker_that_starts_anew_empty_finds_its_workers_again(stack: Stack) -> None:
    stack.worker("a")
    first = stack.create("quick")
    stack.wait_for_end([first])
    stack.broker().flushall()
    stack.valkey.stop()
    second = stack.create("quick")
    stack.valkey.start()
    stack.wait_for_end([second])
    stack.assert_ended_once(second)


def test_a_broker_that_starts_anew_under_a_run_costs_it_nothing(stack: Stack) -> None:
    stack.worker("a")
    first = stack.create("two seconds")
    stack.wait_for_work(first)
    stack.valkey.stop()
    second = stack.create("quick")
    stack.wait_for_end([first])
    stack.valkey.start()
    stack.wait_for_end([second])
    for run in (first, second):
        stack.assert_ended_once(run)
    assert len(stack.claimed(first)) == 1


def test_a_busy_worker_leaves_messages_to_others(stack: Stack) -> None:
    stack.worker("a")
    run = stack.create("two seconds")
    stack.wait_for_work(run)
    stack.broker().lpush(QUEUE, b'{"for": "another"}')
    looks = 0
    while True:
        waiting = len(stack.queued_messages())
        if stack.run(run)["status"] != "running":
            break
        assert waiting == 1
        looks += 1
    assert looks > 10


def test_a_message_that_comes_six_times_is_worked_once(stack: Stack) -> None:
    a, b = stack.worker("a"), stack.worker("b")
    stack.freeze_idle(a)
    stack.freeze_idle(b)
    diary = stack.diary.read_text() if stack.diary.exists() else ""
    run = stack.create("second")
    wait_until(lambda: len(stack.queued_messages()) == 1)
    (message,) = stack.queued_messages()
    for _ in range(5):
        stack.broker().lpush(QUEUE, message)
    a.thaw()
    b.thaw()
    stack.wait_for_end([run])
    wait_until(lambda: not stack.queued_messages())
    stack.assert_ended_once(run)
    assert len(stack.claimed(run)) == 1
    other = stack.create("quick")
    stack.wait_for_end([other])  # whoever still had a double has read it by now, or is idle
    starts = [line for line in stack.diary.read_text()[len(diary) :].splitlines() if line.startswith("start")]
    assert len(starts) == 2


def test_a_message_that_makes_no_sense_does_not_end_the_worker(stack: Stack) -> None:
    a = stack.worker("a")
    stack.freeze_idle(a)
    run = stack.create("quick")
    wait_until(lambda: len(stack.queued_messages()) == 1)
    (good,) = stack.queued_messages()
    stack.broker().rpush(QUEUE, good.replace(b"fuseworks.run", b"fuseworks.walk"), b'{"no": "message"}', b"not JSON")
    a.thaw()
    stack.wait_for_end([run])
    stack.assert_ended_once(run)
    assert a.is_running()


@pytest.mark.parametrize("word", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_end_gives_its_run_back_and_says_goodbye(stack: Stack, word: signal.Signals) -> None:
    a = stack.worker("a")
    run = stack.create("hang")
    stack.wait_for_work(run)
    began = time.monotonic()
    assert a.end(word) == 0
    assert time.monotonic() - began < 10
    assert stack.run(run)["status"] == "queued"
    assert [one["state"] for one in stack.attempts(run)] == ["stopped"]
    (worker,) = stack.rows("SELECT stopped_at FROM fleet_worker WHERE name = 'a'")
    assert worker["stopped_at"] is not None
    stack.api("POST", f"runs/{run}/cancel/")


@pytest.mark.parametrize("word", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_that_is_told_to_end_says_goodbye(stack: Stack, word: signal.Signals) -> None:
    a = stack.worker("a")
    assert a.end(word) == 0
    (worker,) = stack.rows("SELECT stopped_at FROM fleet_worker WHERE name = 'a'")
    assert worker["stopped_at"] is not None


def test_a_killed_dispatcher_is_not_missed_once_another_runs(stack: Stack) -> None:
    stack.worker("a")
    assert stack.dispatcher is not None
    stack.dispatcher.kill()
    runs = [stack.create("quick") for _ in range(3)]
    stack.start_dispatcher()
    stack.wait_for_end(runs)
    for run in runs:
        stack.assert_ended_once(run)


def test_no_token_is_in_any_log(stack: Stack) -> None:
    """After all that happened above: tokens of attempts are 43 characters long and stand in the messages alone."""
    a = stack.worker("a")
    stack.freeze_idle(a)
    run = stack.create("quick")
    wait_until(lambda: len(stack.queued_messages()) == 1)
    (message,) = stack.queued_messages()
    import base64
    import json

    body = json.loads(base64.b64decode(json.loads(message)["body"]))
    token = body[1]["token"]
    a.thaw()
    stack.wait_for_end([run])
    for log in stack.folder.glob("*.log"):
        assert token not in log.read_text(errors="replace"), log.name
        assert "worker-token-for-tests" not in log.read_text(errors="replace"), log.name
