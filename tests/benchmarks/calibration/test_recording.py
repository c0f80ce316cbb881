"""What is kept on disk: it can be read again, goes on where it was, and never mixes what does not belong together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.calibration.recording import log_times, recorded
from benchmarks.recordings import HEADER, RecordingError
from optimizer.benchmarking.bursts import Burst, Entrant
from optimizer.benchmarking.sets import MeasuredSet
from tests.benchmarks.calibration.synthetic import AT, LOST, header, one_set, saved


def test_sets_are_read_as_they_were_written_in_their_order(tmp_path: Path) -> None:
    sets = [one_set([[1.0], [2.0], [3.0]]), LOST, one_set([[4.0], [5.0], [6.0]])]
    recording = saved(tmp_path, {"noisy-default": sets})
    assert recording.sets("noisy-default") == sets
    assert recording.sets("quiet-pinned") == []
    assert recording.conditions() == ["noisy-default"]


def test_what_another_model_gave_is_not_added_to_a_recording(tmp_path: Path) -> None:
    recording = saved(tmp_path, {})
    recording.begin(header(observed={"load_average_1min": 3.0}))
    with pytest.raises(RecordingError, match="has another model and rounds: remove the folder"):
        recording.begin(header(model="dlrm.py", rounds=10))
    assert recording.header() == header()


def test_a_line_that_was_cut_is_named(tmp_path: Path) -> None:
    recording = saved(tmp_path, {"quiet-default": [LOST]})
    with (tmp_path / "quiet-default.jsonl").open("a") as file:
        file.write('{"at": "2026-03-01T12')
    with pytest.raises(RecordingError, match=r"quiet-default\.jsonl:2 is no recorded set; remove the line"):
        recording.sets("quiet-default")
    assert (tmp_path / HEADER).exists()


def test_of_a_measured_set_the_means_of_its_bursts_are_kept_in_the_order_of_starting() -> None:
    def entrant(name: str, milliseconds: float) -> Entrant:
        calls = np.array([milliseconds * 1e6, milliseconds * 3e6], dtype=np.int64)
        waits = [0, int(milliseconds * 1e6)]
        bursts = [Burst(calls, outside_ns=int(calls.sum()), page_faults=8, wait_ns=wait) for wait in waits]
        return Entrant(name, child=None, load_s=0.25, refusals=1, bursts=bursts)  # type: ignore[arg-type]

    entrants = {"contender 2": entrant("contender 2", 5.0), "contender 1": entrant("contender 1", 7.0)}
    kept = recorded(MeasuredSet(entrants, {}, seconds=8.126, load_average=1.234), AT)
    assert [process.burst_means_ns for process in kept.processes] == [[10_000_000] * 2, [14_000_000] * 2]
    assert (kept.calls_per_burst, kept.seconds, kept.load_average, kept.lost) == (2, 8.13, 1.23, None)
    first = kept.processes[0]
    # 16 faults over two bursts of two calls; one of two bursts waited for a quarter of its time
    assert (first.page_faults_per_call, first.disturbed_share, first.refused_bursts) == (4.0, 0.5, 1)


def test_the_time_of_a_process_is_the_mean_of_the_logs_of_its_rounds() -> None:
    times = log_times([LOST, one_set([[1.0, 4.0], [2.0, 2.0], [9.0, 1.0]])])
    assert np.exp(times) / 1e6 == pytest.approx(np.array([[2.0, 2.0, 3.0]]))
