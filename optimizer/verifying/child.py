"""The child's side of verification: the float64 reference, and running any contender on input sets."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

import optimizer.verifying.errors  # noqa: F401  (fills the catalogue)
from optimizer.children.session import Session

Answer = tuple[dict[str, Any], list[np.ndarray]]


def load_reference(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{model, format}`: the float64 contender."""
    started = time.perf_counter()
    path = Path(request["model"])
    if request["format"] == "onnx":
        from optimizer.verifying.onnx_reference import OnnxReference

        session.state["contender"] = OnnxReference(path)
    else:
        from optimizer.verifying.reference import TorchReference

        session.state["contender"] = TorchReference(path)
    return {"load_s": time.perf_counter() - started}, []


def run(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{sets: k, hold, overwrite, tolerant, after}` with k input sets; the answers of the sets that ran, in order.

    `hold`: the first set's answer is kept in its native form, and read again after all the others have run: it comes
    last, as one more set. `overwrite`: a set's inputs are overwritten between the call and the reading of its answer.
    `tolerant`: a set that raises is named in `failed` (its answer left out) and the others go on. `after`: indices of
    inputs whose values after the first call are returned behind all answers.
    """
    contender = session.state["contender"]
    sets = split(arrays, int(request["sets"]))
    answers: list[list[np.ndarray]] = []
    after: list[np.ndarray] = []
    seconds: list[float] = []
    mutated: set[int] = set()
    failed: dict[str, str] = {}
    held: Any = None
    overwritten = 0
    for index, inputs in enumerate(sets):
        try:
            native = contender.stage([array.copy() for array in inputs])
            started = time.perf_counter()
            result = contender.call(native)
            seconds.append(time.perf_counter() - started)
            inputs_after = contender.inputs_after(native)
            mutated |= changed(inputs, inputs_after)
            if index == 0:
                after = [np.array(inputs_after[i]) for i in request.get("after", [])]
                held = result if request.get("hold") else None
            if request.get("overwrite"):
                overwritten += overwrite(native)
            answers.append([np.array(output) for output in contender.outputs(result)])
        except Exception as error:
            if not request.get("tolerant"):
                raise
            failed[str(index)] = f"{type(error).__name__}: {error}"[:500]
    if held is not None:
        answers.append([np.array(output) for output in contender.outputs(held)])
    counts = {len(answer) for answer in answers}
    if len(counts) > 1:
        raise ValueError(f"the number of outputs changes between calls: {sorted(counts)}")
    fields = {
        "outputs_per_set": max(counts, default=0),
        "mutated": sorted(mutated),
        "seconds": seconds,
        "failed": failed,
        "overwritten": overwritten,
    }
    return fields, [*(output for answer in answers for output in answer), *after]


def split(arrays: list[np.ndarray], sets: int) -> list[list[np.ndarray]]:
    """Input sets that arrived one after another."""
    if sets < 1 or len(arrays) % sets:
        raise ValueError(f"{len(arrays)} arrays do not make {sets} sets")
    per_set = len(arrays) // sets
    return [arrays[at : at + per_set] for at in range(0, len(arrays), per_set)]


def changed(before: list[np.ndarray], after: list[np.ndarray]) -> set[int]:
    """Inputs that the call wrote to. Compared as bytes would be: NaN equals NaN."""
    return {
        index
        for index, (old, new) in enumerate(zip(before, after, strict=True))
        if not np.array_equal(old, np.reshape(new, old.shape).astype(old.dtype), equal_nan=old.dtype.kind == "f")
    }


def overwrite(native: Any) -> int:
    """Zeroes every tensor and array that `native` holds; zero is a valid id. Returns how many."""
    if dataclasses.is_dataclass(native):
        return sum(overwrite(getattr(native, field.name)) for field in dataclasses.fields(native))
    if isinstance(native, dict):
        return sum(overwrite(value) for value in native.values())
    if isinstance(native, (list, tuple)):
        return sum(overwrite(value) for value in native)
    if isinstance(native, np.ndarray) and native.flags.writeable:
        native.fill(0)
        return 1
    if hasattr(native, "zero_"):
        native.zero_()
        return 1
    return 0


def first_diverging(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{model_a, model_b}` with one input set: the first operation of b that differs from its namesake in a."""
    from optimizer.verifying.bisect import first_difference

    found = first_difference(Path(request["model_a"]), Path(request["model_b"]), arrays)
    return {"first_diverging": found}, []


OPERATIONS = {"load_reference": load_reference, "run": run, "first_diverging": first_diverging}
