"""The child's operation of a training verification: steps from the beginning, and what they left. No torch here."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from optimizer.children.session import Session

Answer = tuple[dict[str, Any], list[np.ndarray]]


def train(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{batches: b, order, read_at, nudge, state}` with b batches one after another.

    Resets the contender, trains on the batches in `order`, and answers with the losses; the gradients of the steps in
    `read_at`, by parameter; the parameters' changes as sums; with `state` also updates and optimizer state in full.
    `nudge`: a seed: parameters begin moved by a rounding error.
    """
    contender = session.state["contender"]
    count = int(request["batches"])
    per_batch = len(arrays) // count
    batches = [contender.stage(arrays[at : at + per_batch]) for at in range(0, count * per_batch, per_batch)]
    read_at = [int(number) for number in request.get("read_at") or []]
    contender.reset(request.get("nudge"))
    losses: list[float] = []
    names: list[str] = []
    found: list[np.ndarray] = []
    seconds = 0.0
    for number, batch in enumerate(request["order"]):
        started = time.perf_counter()
        losses.append(float(contender.call(batches[int(batch)])))
        seconds += time.perf_counter() - started
        if number in read_at:
            own, gradients = contender.gradients()
            names += [f"{number} {name}" for name in own]
            found += gradients
    fields: dict[str, Any] = {"gradients": names, "updates": [], "state": [], "seconds": seconds}
    if request.get("state"):
        for kind in ("updates", "state"):
            own, more = getattr(contender, kind)()
            fields[kind] = own
            found += more
    return fields, [np.array(losses, dtype=np.float64), contender.changes(), *found]


OPERATIONS = {"train": train}
