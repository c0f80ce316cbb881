"""One attempt from claim to answer: real HTTP, real processes, a stand-in for the coordinator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.workers.fake_platform import RUN, STALE, TOKEN, Platform, alive, wait_until
from workers.api import Stale
from workers.device_locks import device_lock
from workers.http import Unreachable
from workers.settings import Settings
from workers.work import work

Start = Callable[..., Platform]


class Working:
    """`work` in a thread, so that the test can act meanwhile."""

    def __init__(self, platform: Platform, settings: Settings, **more: Any) -> None:
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=[platform, settings], kwargs=more)
        self.thread.start()

    def _run(self, platform: Platform, settings: Settings, **more: Any) -> None:
        try:
            work(platform.message, settings, **more)
        except BaseException as error:
            self.error = error

    def join(self) -> BaseException | None:
        self.thread.join(40)
        assert not self.thread.is_alive(), "it did not end"
        return self.error


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """The processes of a coordinator that hangs: itself and its child."""
    path = tmp_path / "pids"
    monkeypatch.setenv("FAKE_PIDS", str(path))

    def read() -> list[int]:
        wait_until(lambda: path.exists() and len(path.read_text().split()) == 2)
        found = [int(word) for word in path.read_text().split()]
        assert all(alive(pid) for pid in found)
        return found

    return read


def nothing_is_left(settings: Settings) -> bool:
    return not list(settings.scratch.glob("run-*"))


# ---- it ends by itself -----------------------------------------------------------------------------------------------


def test_a_run_is_claimed_worked_reported_and_finished_once(platform: Start, settings: Settings) -> None:
    one = platform(model=b"ok 0.3")
    work(one.message, settings)
    assert one.claimed_by == "test worker"
    assert [result["status"] for result in one.results] == ["succeeded"]
    assert one.messages() == ["Capturing the graph", "Step 0", "Step 1", "Step 2"]
    assert sorted(one.events) == [0, 1, 2, 3]
    assert one.artifacts == {
        "report.html": b"<h1>Report</h1>",
        "recipe.yaml": b"kind: Recipe\n",
        "log.txt": b"worked\n",
    }
    assert one.give_ups == []
    assert one.tokens == {f"Bearer {TOKEN}"}
    assert one.calls.index("finish") == len(one.calls) - 1
    assert nothing_is_left(settings)


def test_no_path_of_the_workers_machine_is_in_the_result(platform: Start, settings: Settings) -> None:
    one = platform()
    work(one.message, settings)
    assert [artifact["path"] for artifact in one.results[0]["artifacts"]] == ["report.html"]


def test_a_models_fault_is_told_as_it_is(platform: Start, settings: Settings) -> None:
    one = platform(model=b"user")
    work(one.message, settings)
    assert one.results[0]["status"] == "failed"
    assert one.results[0]["problem"]["id"] == "capture:user:x"


@pytest.mark.parametrize(
    ("behaviour", "id_", "text"),
    [
        ("crash", "worker:ours:coordinator-died", "by signal 11"),
        ("silent", "worker:ours:coordinator-died", "with exit code 3"),
        ("usage", "worker:ours:spec-refused", "workload.inputs: Field required"),
        ("garbled", "worker:ours:bad-result", "status"),
    ],
)
def test_a_coordinator_without_an_answer_makes_an_errored_run(
    platform: Start, settings: Settings, behaviour: str, id_: str, text: str
) -> None:
    one = platform(model=behaviour.encode())
    work(one.message, settings)
    (result,) = one.results
    assert result["status"] == "errored"
    assert result["problem"]["id"] == id_ and text in result["problem"]["message"]
    assert result["problem"]["remedy"]
    assert one.give_ups == []


def test_the_end_of_the_log_goes_with_a_coordinator_that_died(platform: Start, settings: Settings) -> None:
    one = platform(model=b"crash")
    work(one.message, settings)
    assert "Segmentation fault in here" in one.results[0]["problem"]["detail"]
    assert b"Segmentation fault in here" in one.artifacts["log.txt"]


def test_a_log_without_end_is_cut_in_the_middle_and_a_line_that_is_no_event_is_dropped(
    platform: Start, settings: Settings
) -> None:
    one = platform(model=b"noisy")
    work(one.message, settings)
    log = one.artifacts["log.txt"]
    assert log.startswith(b"the beginning\n") and log.endswith(b"the end\n")
    written = len(b"the beginning\n") + (6 << 20) + len(b"the end\n")
    left_out = written - (4 << 20)
    assert f"\n... {left_out} bytes left out ...\n".encode() in log
    assert len(log) == (4 << 20) + len(f"\n... {left_out} bytes left out ...\n")
    assert one.results[0]["status"] == "succeeded"
    assert one.messages() == ["Capturing the graph"]


def test_a_claim_whose_answer_was_lost_is_sent_again_under_the_same_key(platform: Start, settings: Settings) -> None:
    one, other = platform(lose={"claim"}), platform()
    work(one.message, settings)
    work(other.message, settings)
    assert len(one.keys) == 2 and len(set(one.keys)) == 1
    assert len(one.keys[0]) >= 32 and other.keys[0] != one.keys[0]
    assert [result["status"] for result in one.results] == ["succeeded"]


@pytest.mark.parametrize("id_", ["runs:ours:disk-full", "runs:usage:quota"])
def test_a_platform_without_room_gets_the_answer_at_once_and_it_says_what_is_missing(
    platform: Start, settings: Settings, id_: str
) -> None:
    one = platform(refuse={"artifacts": (507, id_, "The site's storage is full.")})
    work(one.message, settings)
    (result,) = one.results
    assert result["status"] == "succeeded"
    assert f"report.html could not be stored: 507 {id_} The site's storage is full." in result["notes"]
    assert one.calls.count("artifacts") == 3  # once for each file: the same bytes again would find no more room
    assert one.give_ups == []


def test_a_platform_that_takes_no_file_although_it_beats_gets_the_answer_after_a_while(
    platform: Start, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.work.STORE_TRIES_S", 0.3)
    one = platform(refuse={"artifacts": (500, "core:ours:unexpected", "a fault")})
    work(one.message, settings)
    (result,) = one.results
    assert result["status"] == "succeeded"
    notes = [note for note in result["notes"] if "could not be stored" in note]
    assert len(notes) == 3 and "status 500" in notes[0]
    assert one.calls.count("artifacts") > 3


# ---- it is ended -----------------------------------------------------------------------------------------------------


def test_a_cancelled_run_keeps_what_it_has_and_leaves_no_process(
    platform: Start, settings: Settings, pids: Callable[[], list[int]]
) -> None:
    one = platform(model=b"hang", lease_s=1.0)
    working = Working(one, settings)
    one.wait_for(lambda: "hanging" in one.messages())
    running = pids()
    one.cancel = True
    assert working.join() is None
    (result,) = one.results
    assert (result["status"], result["summary"]) == ("cancelled", "half done")
    assert not any(alive(pid) for pid in running)
    assert one.messages()[-1] == "ending 1999"
    assert nothing_is_left(settings)


def test_a_run_past_its_time_limit_ends_timed_out_with_a_remedy(
    platform: Start, settings: Settings, pids: Callable[[], list[int]]
) -> None:
    one = platform(model=b"hang", time_left_s=2.5)
    working = Working(one, settings)
    running = pids()
    assert working.join() is None
    assert not any(alive(pid) for pid in running)
    (result,) = one.results
    assert (result["status"], result["problem"]["id"]) == ("timed_out", "worker:ours:time-limit")
    assert result["summary"] == "half done" and result["problem"]["remedy"]
    assert nothing_is_left(settings)


def test_a_coordinator_that_does_not_listen_is_killed_with_its_children(
    platform: Start, settings: Settings, pids: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.work.POLITE_S", 0.5)
    one = platform(model=b"stubborn", lease_s=1.0)
    working = Working(one, settings)
    running = pids()
    one.cancel = True
    assert working.join() is None
    assert [result["status"] for result in one.results] == ["cancelled"]
    assert not any(alive(pid) for pid in running)


def test_an_answer_that_was_there_before_the_end_is_kept(
    platform: Start, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.work.POLITE_S", 0.5)
    one = platform(model=b"finished-then-hangs", lease_s=1.0)
    working = Working(one, settings)
    one.wait_for(lambda: "hanging" in one.messages())
    one.cancel = True
    assert working.join() is None
    assert [result["status"] for result in one.results] == ["succeeded"]


@pytest.mark.parametrize("verb", ["heartbeat", "events"])
def test_a_stale_attempt_stops_says_nothing_more_and_cleans_up(
    platform: Start, settings: Settings, pids: Callable[[], list[int]], verb: str
) -> None:
    one = platform(model=b"hang", lease_s=1.0)
    working = Working(one, settings)
    running = pids()
    one.refuse = {verb: STALE}
    assert isinstance(working.join(), Stale)
    assert one.results == [] and one.give_ups == [] and one.artifacts == {}
    assert not any(alive(pid) for pid in running)
    assert nothing_is_left(settings)


def test_a_worker_that_is_cut_off_for_longer_than_its_lease_stops(
    platform: Start, settings: Settings, pids: Callable[[], list[int]]
) -> None:
    one = platform(model=b"hang", lease_s=1.5)
    working = Working(one, settings)
    running = pids()
    one.answering.clear()
    assert isinstance(working.join(), (Stale, Unreachable))
    assert not any(alive(pid) for pid in running)
    assert one.results == [] and nothing_is_left(settings)


def test_a_worker_that_stops_gives_the_run_back(
    platform: Start, settings: Settings, pids: Callable[[], list[int]]
) -> None:
    one = platform(model=b"hang")
    stop = threading.Event()
    said: list[bool] = []
    working = Working(one, settings, stopping=stop.is_set, before_leaving=lambda: said.append(bool(one.give_ups)))
    running = pids()
    stop.set()
    assert working.join() is None
    assert one.results == []
    assert ["worker:ours:stopping" in reason for reason in one.give_ups] == [True]
    assert one.stopped == [True]
    assert said == [False], "goodbye comes first"
    assert not any(alive(pid) for pid in running)


def test_the_wait_for_the_device_is_no_work(platform: Start, settings: Settings) -> None:
    one = platform(model=b"ok 0.3", lease_s=0.4)
    with device_lock(settings.device_locks, "cpu", shared=False):
        working = Working(one, settings)
        one.wait_for(lambda: len(one.works) > 3)
        assert not any(one.works)
    assert working.join() is None
    assert [result["status"] for result in one.results] == ["succeeded"]
    assert True in one.works


# ---- it does not come to it ------------------------------------------------------------------------------------------


def test_a_run_that_is_not_ours_to_claim_is_left_alone(platform: Start, settings: Settings) -> None:
    one = platform(refuse={"claim": STALE})
    with pytest.raises(Stale):
        work(one.message, settings)
    assert one.calls == ["claim"]


def test_a_platform_that_rests_a_while_is_waited_for(platform: Start, settings: Settings) -> None:
    one = platform(unwell=3)
    work(one.message, settings)
    assert one.calls[:4] == ["claim"] * 4
    assert len(one.results) == 1


def test_a_platform_that_never_answers_costs_no_more_than_the_claims_time(
    settings: Settings, platform: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.work.CLAIM_TRIES_S", 0.3)
    one = platform(unwell=10_000)
    with pytest.raises(Unreachable, match="503"):
        work(one.message, settings)


def test_a_file_that_is_not_what_was_announced_gives_the_run_back(platform: Start, settings: Settings) -> None:
    one = platform(sha256="0" * 64)
    work(one.message, settings)
    assert one.results == []
    assert ["worker:ours:bad-download" in reason and "SHA-256" in reason for reason in one.give_ups] == [True]
    assert one.stopped == [False]
    assert nothing_is_left(settings)


def test_a_worker_without_room_gives_the_run_back(platform: Start, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    one = platform()
    work(one.message, replace(settings, scratch=tmp_path / "file" / "scratch"))
    assert ["worker:ours:no-room" in reason for reason in one.give_ups] == [True]


def test_a_coordinator_that_cannot_be_started_makes_an_errored_run(platform: Start, settings: Settings) -> None:
    one = platform()
    work(one.message, replace(settings, coordinator=("/no/such/program",)))
    (result,) = one.results
    assert result["problem"]["id"] == "worker:ours:coordinator-died"
    assert "/no/such/program did not start" in result["problem"]["detail"]


def test_a_result_that_the_platform_refuses_is_told_as_an_error(platform: Start, settings: Settings) -> None:
    one = platform(refuse_once={"finish": (400, "core:usage:invalid", "result: nonsense")})
    work(one.message, settings)
    (result,) = one.results
    assert (result["status"], result["problem"]["id"]) == ("errored", "worker:ours:result-refused")


def test_an_artifact_that_the_platform_refuses_is_named_in_the_notes(platform: Start, settings: Settings) -> None:
    one = platform(refuse={"artifacts": (413, "runs:usage:too-large", "too large")})
    work(one.message, settings)
    (result,) = one.results
    assert result["status"] == "succeeded"
    assert [note.split(" could")[0] for note in result["notes"]] == ["report.html", "recipe.yaml", "log.txt"]


# ---- the device ------------------------------------------------------------------------------------------------------


# a prediction's GPU is not here: it waits for who measures on the worker's own device
@pytest.mark.parametrize(("asked", "shared"), [({}, True), ({"purpose": "explain", "target": "cuda:sm_90"}, False)])
def test_a_run_waits_for_its_device_and_says_so(platform: Start, settings: Settings, asked: Any, shared: bool) -> None:
    one = platform(**asked)
    with device_lock(settings.device_locks, "cpu", shared=shared):
        working = Working(one, settings)
        one.wait_for(lambda: bool(one.events))
        assert "files" not in one.calls
    assert working.join() is None
    assert one.messages()[0] == "Waiting for the device cpu: another run measures on it"
    assert one.results[0]["status"] == "succeeded"


def test_an_inspection_shares_the_device(platform: Start, settings: Settings) -> None:
    one = platform(purpose="inspect")
    with device_lock(settings.device_locks, "cpu", shared=True):
        work(one.message, settings)
    assert one.results[0]["status"] == "succeeded"


def test_a_run_that_is_cancelled_while_it_waits_never_starts(platform: Start, settings: Settings) -> None:
    one = platform(lease_s=1.0, cancel=True)
    with device_lock(settings.device_locks, "cpu", shared=True):
        work(one.message, settings)
    assert [result["status"] for result in one.results] == ["cancelled"]
    assert "files" not in one.calls


def test_the_device_is_free_when_the_run_is_over(platform: Start, settings: Settings) -> None:
    one = platform(model=b"crash")
    work(one.message, settings)

    def refuse() -> bool:
        raise AssertionError("it is taken")

    with device_lock(settings.device_locks, "cpu", shared=False, go_on=refuse) as fd:
        assert fd > 0


def test_the_token_is_never_logged(platform: Start, settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    one = platform(refuse={"artifacts": (413, "x", "too large")}, unwell=1)
    work(one.message, settings)
    assert RUN in caplog.text
    assert TOKEN not in caplog.text
