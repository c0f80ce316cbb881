"""Finds an operation by its name, `stage.name`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

Operation = Callable[[Any, dict[str, Any], list[np.ndarray]], tuple[dict[str, Any], list[np.ndarray]]]


def find(op: str) -> Operation:
    """Raises LookupError for an operation that no stage has: the coordinator's fault, never the model's."""
    stage, _, name = op.partition(".")
    if not (stage.isidentifier() and name.isidentifier()):
        raise LookupError(f"{op!r} names no operation")
    operations: dict[str, Operation] = importlib.import_module(f"optimizer.{stage}.child").OPERATIONS
    return operations[name]
