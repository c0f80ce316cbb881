"""Records sets of identical eager processes with the judge's own measuring code, the conditions taking turns.

Each set is one of the judge's: fresh sandboxed processes, warm-up, settling, interleaved rounds of bursts. Answers are
not compared. What is there already is not recorded again, so that a recording which was cut goes on where it was.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.calibration.conditions import CONDITIONS, DEFAULT, Condition
from benchmarks.calibration.neighbour import neighbour
from benchmarks.calibration.recording import Header, RecordedSet, Recording, recorded
from optimizer.benchmarking.bursts import Draw
from optimizer.benchmarking.load import busy
from optimizer.benchmarking.sets import ROUNDS, Start, measure_set
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext, default_threads, seed_of
from optimizer.coordinator.events import Emitter
from optimizer.coordinator.judging import starter
from optimizer.coordinator.prepare import conditions, drawing, prepare
from optimizer.errors import FuseworksError, load_catalogue
from optimizer.spec import Policy, RunSpec, RuntimeSettings

SETS, TURN = 30, 10
CONTENDERS = 3  # as in a judgement of one winner: the baseline, the baseline once more, the winner
FINGERPRINT_DIGITS = 12
QUIET_WAIT_S, QUIET_LOOK_S = 600.0, 5.0

Say = Callable[[str], None]


class NotQuiet(Exception):
    """Other work wants the cores, and the condition asks for a quiet machine."""


class Contenders(NamedTuple):
    """How to start a process of the contender under given settings, and to draw its inputs."""

    start: Callable[[RuntimeSettings], Start]
    drawing: Callable[[int, int], Draw]
    header: Header


class Turn(NamedTuple):
    condition: Condition
    first: int
    sets: int


def turns(recording: Recording, chosen: Sequence[Condition], sets: int) -> list[Turn]:
    """What is left to record: ten sets of each condition in turn, so that a machine's slow drift meets all of them."""
    have = {one.name: len(recording.sets(one.name)) for one in chosen}
    found = []
    for until in [*range(TURN, sets, TURN), sets]:
        for one in chosen:
            if have[one.name] < until:
                found.append(Turn(one, have[one.name], until - have[one.name]))
                have[one.name] = until
    return found


def record(
    root: Path, contenders: Contenders, *, say: Say, sets: int = SETS, chosen: Sequence[Condition] = CONDITIONS
) -> Recording:
    """Raises RecordingError, NotQuiet, FuseworksError."""
    header = contenders.header
    recording = Recording(root / header.fingerprint[:FINGERPRINT_DIGITS])
    recording.begin(header)
    ahead = turns(recording, chosen, sets)
    left, taken_s = sum(turn.sets for turn in ahead), 0.0
    say(f"{left} sets of {header.contenders} processes to record in {recording.folder}")
    done = 0
    for turn in ahead:
        with neighbour(header.seed + turn.first) if turn.condition.noisy else nullcontext():
            for number in range(turn.first, turn.first + turn.sets):
                if not turn.condition.noisy:
                    wait_until_quiet(say)
                began = time.monotonic()
                one = record_set(contenders, turn.condition, number)
                recording.append(turn.condition.name, one)
                taken_s += time.monotonic() - began
                done += 1
                ending = f"lost ({one.lost})" if one.lost else f"{one.seconds:.1f} s"
                minutes = (left - done) * taken_s / done / 60
                say(
                    f"{turn.condition.in_words}: set {number + 1} of {sets}, {ending}, load {one.load_average:.1f}; "
                    f"{left - done} left, some {minutes:.0f} min"
                )
    return recording


def record_set(contenders: Contenders, condition: Condition, number: int) -> RecordedSet:
    """One set. When its measuring fails, that is kept: a judgement would end there, too. Raises FuseworksError."""
    header, place = contenders.header, CONDITIONS.index(condition)
    names = [f"contender {index + 1}" for index in range(header.contenders)]
    start = contenders.start(condition.settings)
    at, began = datetime.now(UTC).replace(microsecond=0), time.monotonic()
    try:
        measured = measure_set(
            dict.fromkeys(names, start),
            contenders.drawing(place, number),
            baseline=names[0],
            essential=names,
            rng=np.random.default_rng([header.seed, place, number]),
            rounds=header.rounds,
        )
    except FuseworksError as error:
        if not error.id.startswith("benchmarking:"):
            raise  # a contender that does not run at all is no measurement that went wrong
        seconds, load = round(time.monotonic() - began, 2), round(os.getloadavg()[0], 2)
        return RecordedSet(at=at, seconds=seconds, load_average=load, lost=error.id)
    return recorded(measured, at)


def wait_until_quiet(
    say: Say,
    *,
    is_busy: Callable[[], bool] = busy,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Returns at once where nothing else wants the cores. Raises NotQuiet after ten minutes."""
    until, told = clock() + QUIET_WAIT_S, False
    while is_busy():
        if clock() > until:
            raise NotQuiet("Other work wants the cores: stop it and call the same again; what is recorded stays.")
        if not told:
            say("Waiting: other work wants the cores")
            told = True
        sleep(QUIET_LOOK_S)


@contextmanager
def eager_processes(
    model: Path, seed: int, *, contenders: int = CONTENDERS, rounds: int = ROUNDS
) -> Iterator[Contenders]:
    """Captures `model` as a run does; its baseline is the contender. Raises FuseworksError."""
    load_catalogue()
    model = model.resolve()
    work = Path(tempfile.mkdtemp(prefix="fuseworks-calibration-"))
    spec = RunSpec(model=str(model), out=str(work / "out"), policy=Policy(seed=seed))
    context = RunContext(
        spec=spec,
        work=work,
        out=work / "out",
        events=Emitter(lambda _: None, spec.policy.budget_s),
        seed=seed_of(spec),
        threads=default_threads(spec),
    )
    try:
        bench = prepare(context, Answer(), model)
        known = conditions(context, DEFAULT)
        header = Header(
            model=model.name,
            model_sha256=hashlib.sha256(model.read_bytes()).hexdigest(),
            rounds=rounds,
            contenders=contenders,
            seed=seed,
            fingerprint=known.fingerprint,
            fixed=known.fixed,
            observed=known.observed,
        )
        yield Contenders(
            start=lambda settings: starter(bench, bench.baseline(settings), settings),
            drawing=lambda place, number: drawing(bench, place, number),
            header=header,
        )
    finally:
        context.end_children(None)
        shutil.rmtree(work, ignore_errors=True)
