"""Puts input sets to a child and takes its answers as data: checked for form, never trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from optimizer.errors import FuseworksError
from optimizer.sandbox import Child, Reply

CHUNK_BYTES, CHUNK_SETS = 64 << 20, 16

InputSet = list[np.ndarray]


@dataclass
class Answers:
    """One entry per input set; None where it raised (then `failed` says what). `held` and `after` only if asked for."""

    sets: list[list[np.ndarray] | None] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    mutated: set[int] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)
    held: list[np.ndarray] | None = None
    after: list[np.ndarray] = field(default_factory=list)
    overwritten: int = 0
    refilled: int = 0

    def whole(self) -> list[list[np.ndarray]]:
        """All answers, where none may be missing."""
        return [answer for answer in self.sets if answer is not None]


def ask(
    child: Child,
    questions: Sequence[InputSet],
    *,
    timeout_s: float,
    tolerant: bool = False,
    hold: bool = False,
    overwrite: bool = False,
    after: Sequence[int] = (),
    strided: bool = False,
    refill: bool = False,
) -> Answers:
    """`verifying.run` in chunks. Raises ChildFailed; FuseworksError (`child:user:bad-answer`)."""
    answers = Answers()
    chunks = [list(questions)] if hold or after or refill else _chunks(questions)
    for number, chunk in enumerate(chunks):
        reply = child.call(
            "verifying.run",
            [array for inputs in chunk for array in inputs],
            timeout_s=timeout_s,
            sets=len(chunk),
            fresh=number == 0,
            tolerant=tolerant,
            hold=hold,
            overwrite=overwrite,
            after=list(after),
            strided=strided,
            refill=refill,
        )
        _take(reply, len(chunk), answers, hold=hold, after=len(after), refill=refill)
    unknown = answers.mutated - set(range(len(questions[0]) if questions else 0))
    if unknown:
        raise FuseworksError("child:user:bad-answer", text=f"it names inputs that there are not: {sorted(unknown)}")
    return answers


def _chunks(questions: Sequence[InputSet]) -> list[list[InputSet]]:
    chunks: list[list[InputSet]] = []
    room = 0
    for inputs in questions:
        size = sum(array.nbytes for array in inputs)
        if not chunks or size > room or len(chunks[-1]) >= CHUNK_SETS:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(inputs)
        room -= size
    return chunks


def _take(reply: Reply, sets: int, answers: Answers, *, hold: bool, after: int, refill: bool) -> None:
    try:
        per_set = int(reply.fields["outputs_per_set"])
        failed = {int(index): str(text)[:500] for index, text in dict(reply.fields["failed"]).items()}
        mutated = {int(index) for index in reply.fields["mutated"]}
        seconds = [float(value) for value in reply.fields["seconds"]]
        answers.overwritten += int(reply.fields["overwritten"])
        answers.refilled += int(reply.fields["refilled"]) if refill else 0
    except (KeyError, TypeError, ValueError) as error:
        raise FuseworksError("child:user:bad-answer", text=f"an answer without its fields: {error!r}") from error
    ran = [index for index in range(sets) if index not in failed]
    held = 1 if hold and 0 not in failed else 0
    if len(reply.arrays) != per_set * (len(ran) + held) + (after if ran else 0):
        raise FuseworksError("child:user:bad-answer", text=f"{len(reply.arrays)} arrays for {len(ran)} answers")
    base = len(answers.sets)
    taken = iter(range(0, per_set * (len(ran) + held), per_set) if per_set else [0] * (len(ran) + held))
    for index in range(sets):
        answers.sets.append(None if index in failed else _slice(reply.arrays, next(taken), per_set))
    if held:
        answers.held = _slice(reply.arrays, next(taken), per_set)
    if after:
        answers.after = reply.arrays[len(reply.arrays) - after :]
    answers.failed.update({base + index: text for index, text in failed.items()})
    answers.mutated |= mutated
    answers.seconds += seconds


def _slice(arrays: list[np.ndarray], at: int, count: int) -> list[np.ndarray]:
    return arrays[at : at + count]
