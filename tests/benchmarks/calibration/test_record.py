"""Recording: the conditions take turns, what is there is not recorded again, and the judge's own code measures."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from benchmarks.calibration import record as recording_of
from benchmarks.calibration.__main__ import main
from benchmarks.calibration.conditions import BY_NAME, CONDITIONS
from benchmarks.calibration.neighbour import neighbour
from benchmarks.calibration.record import (
    Contenders,
    NotQuiet,
    Turn,
    eager_processes,
    record,
    record_set,
    turns,
    wait_until_quiet,
)
from optimizer.benchmarking import bursts
from optimizer.errors import FuseworksError
from optimizer.sandbox import Reply
from optimizer.spec import RuntimeSettings
from tests.benchmarks.calibration.synthetic import LOST, header, saved
from tests.optimizer.benchmarking.simulated import CALL_NS, SimulatedChild, drawer

QUIET = [BY_NAME["quiet-default"], BY_NAME["quiet-pinned"]]
MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(256, 256)

    def forward(self, x):
        return torch.relu(self.layer(x)) @ self.layer.weight


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(64, 256)]
"""


@pytest.fixture
def made_up_times_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated calls take no time at all, so on a busy machine the outer clock would refuse them."""
    monkeypatch.setattr(bursts, "CLOCK_SLACK_NS", 10**12)
    monkeypatch.setattr(recording_of, "wait_until_quiet", lambda say: None)


def simulated_contenders(child: type[SimulatedChild] = SimulatedChild) -> tuple[Contenders, list[RuntimeSettings]]:
    """The second: the settings under which processes were asked for, one entry a set."""
    asked: list[RuntimeSettings] = []

    def start(settings: RuntimeSettings) -> Any:
        asked.append(settings)
        return lambda: child(np.random.default_rng(0), 1.0, 0.0, 0.0)

    return Contenders(start, lambda *key: drawer(np.random.default_rng(key)), header()), asked


def test_conditions_take_turns_of_ten_sets_and_go_on_where_they_were(tmp_path: Path) -> None:
    first, second = QUIET
    recording = saved(tmp_path, {first.name: [LOST] * 12})
    assert turns(recording, QUIET, 15) == [Turn(second, 0, 10), Turn(first, 12, 3), Turn(second, 10, 5)]
    assert turns(recording, QUIET, 4) == [Turn(second, 0, 4)]
    assert turns(recording, [first], 12) == []


def test_there_are_four_conditions_quiet_and_noisy_with_two_allocators() -> None:
    kinds = {(one.noisy, one.settings.allocator) for one in CONDITIONS}
    assert kinds == {(noisy, name) for noisy in (False, True) for name in ("default", "glibc-no-trim")}


@pytest.mark.usefixtures("made_up_times_stand")
def test_only_what_is_missing_is_recorded(tmp_path: Path) -> None:
    contenders, asked = simulated_contenders()
    said: list[str] = []
    recording = record(tmp_path, contenders, say=said.append, sets=2, chosen=QUIET)
    assert recording.folder == tmp_path / ("ab" * 6)
    assert [one.allocator for one in asked] == ["default"] * 2 + ["glibc-no-trim"] * 2
    assert said[0].startswith("4 sets of 3 processes to record")
    assert "pinned allocator: set 2 of 2" in said[-1] and "0 left" in said[-1]
    asked.clear()
    again = record(tmp_path, contenders, say=said.append, sets=3, chosen=QUIET)
    assert len(asked) == 2
    assert [len(again.sets(one.name)) for one in QUIET] == [3, 3]
    (process, *others) = again.sets("quiet-default")[0].processes
    assert process.burst_means_ns == [round(CALL_NS)] * 4
    assert len(others) == 2


class Liar(SimulatedChild):
    def go(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        raise FuseworksError("benchmarking:user:clock", name="contender 1", inside_ms=1, outside_ms=9, refusals=5)


class Broken(SimulatedChild):
    def warm_up(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        raise FuseworksError("child:user:out-of-memory", limit_mib=1)


@pytest.mark.usefixtures("made_up_times_stand")
def test_a_set_whose_measuring_fails_is_kept_as_lost() -> None:
    contenders, _ = simulated_contenders(Liar)
    lost = record_set(contenders, QUIET[0], 0)
    assert (lost.lost, lost.processes) == ("benchmarking:user:clock", [])


@pytest.mark.usefixtures("made_up_times_stand")
def test_a_contender_that_does_not_run_ends_the_recording() -> None:
    contenders, _ = simulated_contenders(Broken)
    with pytest.raises(FuseworksError) as caught:
        record_set(contenders, QUIET[0], 0)
    assert caught.value.id == "child:user:out-of-memory"


def test_a_quiet_condition_waits_for_a_quiet_machine_and_says_so_once() -> None:
    answers, slept, said = iter([True, True, False]), [], []
    wait_until_quiet(said.append, is_busy=lambda: next(answers), sleep=slept.append, clock=lambda: 0.0)
    assert said == ["Waiting: other work wants the cores"]
    assert len(slept) == 2


def test_it_gives_up_on_a_machine_that_is_never_quiet() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(NotQuiet, match="what is recorded stays"):
        wait_until_quiet(lambda _: None, is_busy=lambda: True, sleep=sleep, clock=lambda: now[0])
    assert 600 <= now[0] <= 610


def test_the_neighbour_works_while_the_block_does_and_ends_by_itself() -> None:
    with neighbour(0) as process:
        seen, deadline = psutil.Process(process.pid), time.monotonic() + 60
        before = seen.cpu_times().user + seen.cpu_times().system
        while seen.cpu_times().user + seen.cpu_times().system < before + 0.2:
            assert time.monotonic() < deadline, "it does nothing"
        assert process.poll() is None
    assert process.returncode == 0


def test_a_recording_that_is_cut_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    asked: list[tuple[Any, Any]] = []
    monkeypatch.setattr(recording_of, "eager_processes", cut)
    monkeypatch.setattr(signal, "signal", lambda number, handler: asked.append((number, handler)))
    assert main(["record", "--out", str(tmp_path)]) == 3
    assert capsys.readouterr().err == "Cut. What is recorded stays: call the same again to go on.\n"
    assert asked == [(signal.SIGTERM, signal.default_int_handler)], "a time limit ends it as a person would"


@pytest.mark.parametrize("options", [["--sets", "0"], ["--contenders", "2"], ["--condition", "loud"]])
def test_what_cannot_be_recorded_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", *options]) == 64
    assert options[0] in capsys.readouterr().err


def test_real_processes_are_recorded_as_the_judge_measures_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sets, one for each allocator; nothing is said about their times."""
    monkeypatch.setattr(recording_of, "wait_until_quiet", lambda say: None)
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    with eager_processes(model, seed=0, rounds=2) as contenders:
        recording = record(tmp_path / "out", contenders, say=lambda _: None, sets=1, chosen=QUIET)
    assert recording.header().model == "model.py"
    for condition in QUIET:
        (one,) = recording.sets(condition.name)
        # too busy a machine may lose a set, and then that is what is kept
        if one.lost is not None:
            assert one.lost.startswith("benchmarking:")
            continue
        assert [len(process.burst_means_ns) for process in one.processes] == [2, 2, 2]
        assert all(mean > 0 for process in one.processes for mean in process.burst_means_ns)
        assert 2 <= one.calls_per_burst <= 48 and one.seconds > 0
