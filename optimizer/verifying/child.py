"""The child's side of verification: the float64 reference, and running any contender on input sets."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

import optimizer.verifying.errors  # noqa: F401  (fills the catalogue)
from optimizer.children.session import Session
from optimizer.spec import Workload
from optimizer.verifying.training.child import train

Answer = tuple[dict[str, Any], list[np.ndarray]]
MORE_CALLS, MORE_CALLS_S = 16, 0.25


def load_reference(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{model, format, workload?}`: the float64 contender; of a training step it needs the workload."""
    started = time.perf_counter()
    path = Path(request["model"])
    if request["format"] == "step":
        from optimizer.verifying.training.reference import StepReference

        session.state["contender"] = StepReference(path, Workload.model_validate(request["workload"]))
    elif request["format"] == "onnx":
        from optimizer.verifying.onnx_reference import OnnxReference

        session.state["contender"] = OnnxReference(path)
    else:
        from optimizer.verifying.reference import TorchReference

        session.state["contender"] = TorchReference(path)
    return {"load_s": time.perf_counter() - started}, []


def run(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{sets: k}` with k input sets, and what is said below; the answers of the sets that ran, in order.

    `hold`: the first set's answer is kept in its native form, and read again after all the others have run (and the
    last of them many times): it comes last, as one more set. `overwrite`: a set's inputs are overwritten between the
    call and the reading of its answer. `tolerant`: a set that raises is named in `failed` (its answer left out) and the
    others go on. `after`: indices of inputs whose values after the first call are returned behind all answers.
    `strided`: arrays are handed over with gaps between their elements. `refill`: each set but the first is put into the
    memory of the first one's inputs, where the engine's inputs can be reached (`refilled` counts them). `fresh`: calls
    that go on from one another (training steps) begin anew.
    """
    contender = session.state["contender"]
    if request.get("fresh") and getattr(contender, "in_sequence", False):
        contender.reset()
    sets = split(arrays, int(request["sets"]))
    if request.get("strided"):
        sets = [[with_gaps(array) for array in inputs] for inputs in sets]
    answers: list[list[np.ndarray]] = []
    after: list[np.ndarray] = []
    seconds: list[float] = []
    mutated: set[int] = set()
    failed: dict[str, str] = {}
    held: Any = None
    memory: Any = None
    overwritten = refilled = 0
    for index, inputs in enumerate(sets):
        try:
            native = contender.stage([array if request.get("strided") else array.copy() for array in inputs])
            if request.get("refill"):
                refilled += refill(memory, native) if index else 0
                native = memory = native if memory is None else memory
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
        _call_on(contender, sets[-1])
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
        "refilled": refilled,
    }
    return fields, [*(output for answer in answers for output in answer), *after]


def _call_on(contender: Any, inputs: list[np.ndarray]) -> None:
    """Calls go on, so that an answer which lies in one of several buffers used in turn is overwritten too."""
    deadline = time.perf_counter() + MORE_CALLS_S
    for _ in range(MORE_CALLS):
        contender.call(contender.stage([array.copy() for array in inputs]))
        if time.perf_counter() > deadline:
            return


def with_gaps(array: np.ndarray) -> np.ndarray:
    """The same values, not contiguous: between any two lies one that is wrong (NaN; of integers zero, a valid id)."""
    spaced = np.full((*array.shape, 2), np.nan if array.dtype.kind == "f" else 0, dtype=array.dtype)
    spaced[..., 0] = array
    view: np.ndarray = spaced[..., 0]
    return view


def refill(memory: Any, values: Any) -> int:
    """Writes the inputs in `values` into those in `memory`, of the same form. Returns how many were written."""
    if dataclasses.is_dataclass(memory):
        return sum(refill(getattr(memory, f.name), getattr(values, f.name)) for f in dataclasses.fields(memory))
    if isinstance(memory, dict):
        return sum(refill(memory[key], values[key]) for key in memory)
    if isinstance(memory, (list, tuple)):
        return sum(refill(old, new) for old, new in zip(memory, values, strict=True))
    if isinstance(memory, np.ndarray) and memory.flags.writeable:
        memory[...] = values
        return 1
    if hasattr(memory, "copy_"):
        memory.copy_(values)
        return 1
    return 0


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


OPERATIONS = {"load_reference": load_reference, "run": run, "first_diverging": first_diverging, "train": train}
