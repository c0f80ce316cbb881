"""Recordings with known answers: each process draws an effect of its own, each burst another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.calibration.recording import Header, RecordedProcess, RecordedSet, Recording

CALL_NS = 10_000_000.0
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LOST = RecordedSet(at=AT, seconds=1.0, load_average=0.0, lost="benchmarking:ours:busy")


def one_set(levels: Sequence[Sequence[float]], seconds: float = 2.0) -> RecordedSet:
    """`levels`: for each process the times of its bursts, in milliseconds."""
    processes = [
        RecordedProcess(
            burst_means_ns=[round(ms * 1e6) for ms in bursts],
            page_faults_per_call=0.0,
            disturbed_share=0.0,
            refused_bursts=0,
            stable=True,
            load_s=0.1,
        )
        for bursts in levels
    ]
    return RecordedSet(at=AT, seconds=seconds, load_average=0.5, calls_per_burst=6, processes=processes)


def simulated(
    sets: int,
    *,
    seed: int = 0,
    process_sd: float = 0.02,
    burst_sd: float = 0.012,
    rounds: int = 4,
    effect: Callable[[np.random.Generator, int], np.ndarray] | None = None,
) -> list[RecordedSet]:
    """`effect(rng, number)`: what is added to the logarithms of the three processes of a set."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(sets):
        level = rng.normal(0, process_sd, 3) + (effect(rng, number) if effect else 0.0)
        times = CALL_NS / 1e6 * np.exp(level[:, None] + rng.normal(0, burst_sd, (3, rounds)))
        found.append(one_set(times.tolist()))
    return found


def header(**changes: object) -> Header:
    fields = {
        "model": "din.py",
        "model_sha256": "0" * 64,
        "rounds": 4,
        "contenders": 3,
        "seed": 0,
        "fingerprint": "ab" * 32,
        "fixed": {"cpu": "a processor", "threads": 2},
        "observed": {},
    }
    return Header.model_validate({**fields, **changes})


def saved(folder: Path, conditions: dict[str, list[RecordedSet]]) -> Recording:
    recording = Recording(folder)
    recording.begin(header())
    for name, sets in conditions.items():
        for one in sets:
            recording.append(name, one)
    return recording
