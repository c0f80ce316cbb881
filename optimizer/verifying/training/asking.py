"""Lets a child train for some steps and takes what it answers as data: checked for form, never trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.errors import FuseworksError
from optimizer.sandbox import Child

Tensors = dict[str, np.ndarray]
KINDS = ("gradients", "updates", "state")


@dataclass(frozen=True)
class Trained:
    """`losses` of every step; `changes` of each parameter as sums; the others by name (a gradient's begins with the
    number of its step), empty where they were not asked for."""

    losses: np.ndarray
    changes: np.ndarray
    gradients: Tensors
    updates: Tensors
    state: Tensors
    seconds: float

    def of(self, kind: str) -> Tensors:
        found: Tensors = getattr(self, kind)
        return found


def train(
    child: Child,
    batches: Sequence[Sequence[np.ndarray]],
    order: Sequence[int],
    *,
    timeout_s: float,
    read_at: Sequence[int] = (),
    nudge: int | None = None,
    state: bool = False,
) -> Trained:
    """Raises ChildFailed; FuseworksError (`child:user:bad-answer`)."""
    reply = child.call(
        "verifying.train",
        [array for batch in batches for array in batch],
        timeout_s=timeout_s,
        batches=len(batches),
        order=list(order),
        read_at=list(read_at),
        nudge=nudge,
        state=state,
    )
    names = {kind: reply.fields.get(kind) for kind in KINDS}
    lists = [one for one in names.values() if isinstance(one, list)]
    if len(lists) != len(KINDS) or len(reply.arrays) != 2 + sum(map(len, lists)):
        raise FuseworksError("child:user:bad-answer", text="gradients and updates without their names")
    losses, changes, *others = reply.arrays
    if losses.shape != (len(order),) or losses.dtype.kind != "f" or changes.ndim != 2 or changes.dtype.kind != "f":
        raise FuseworksError("child:user:bad-answer", text=f"losses of shape {losses.shape} for {len(order)} steps")
    left = iter(others)
    taken = {kind: {str(name): next(left) for name in names[kind] or []} for kind in KINDS}
    if any(array.dtype.kind != "f" for tensors in taken.values() for array in tensors.values()):
        # a step may count in integers (a norm's batches): they are compared as numbers
        taken = {kind: {n: a.astype(np.float64) for n, a in tensors.items()} for kind, tensors in taken.items()}
    seconds = reply.fields.get("seconds")
    return Trained(losses, changes, **taken, seconds=float(seconds) if isinstance(seconds, (int, float)) else 0.0)
