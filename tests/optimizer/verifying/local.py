"""A child without a process: the real operations of the verifying and benchmarking stages around any contender."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from optimizer.benchmarking import child as benchmarking
from optimizer.children.session import Session
from optimizer.errors import FuseworksError
from optimizer.sandbox import ChildFailed, Reply
from optimizer.verifying import child as verifying

OPERATIONS = {
    **{f"verifying.{name}": function for name, function in verifying.OPERATIONS.items()},
    **{f"benchmarking.{name}": function for name, function in benchmarking.OPERATIONS.items()},
}


class TorchContender:
    """`function(*tensors) -> tensor or tuple`, called as the eager backend would."""

    def __init__(self, function: Callable[..., Any], dtype: torch.dtype | None = None) -> None:
        self.function = function
        self.dtype = dtype

    def stage(self, arrays: list[np.ndarray]) -> list[torch.Tensor]:
        tensors = [torch.from_numpy(np.array(array)) for array in arrays]
        return [t.to(self.dtype) if self.dtype and t.is_floating_point() else t for t in tensors]

    def call(self, native: list[torch.Tensor]) -> Any:
        with torch.no_grad():
            return self.function(*native)

    def outputs(self, native: Any) -> list[np.ndarray]:
        return [t.detach().numpy() for t in (native if isinstance(native, (tuple, list)) else [native])]

    def inputs_after(self, native: list[torch.Tensor]) -> list[np.ndarray]:
        return [t.numpy() for t in native]


class LocalChild:
    """What the coordinator's side needs of a Child. A contender's exception becomes ChildFailed, as over the wire."""

    def __init__(self, contender: Any) -> None:
        self.session = Session(fd=-1, scratch=Path("."), state={"contender": contender})
        self.calls: list[str] = []
        self.alive = True

    def call(
        self, op: str, arrays: Sequence[np.ndarray] = (), *, timeout_s: float, collect: Any = None, **fields: Any
    ) -> Reply:
        self.calls.append(op)
        try:
            answer, outputs = OPERATIONS[op](self.session, fields, [np.array(a) for a in arrays])
        except FuseworksError:
            raise
        except Exception as error:
            raise ChildFailed("child:user:exception", type=type(error).__name__, text=str(error)) from error
        return Reply(answer, [np.atleast_1d(np.array(o)) for o in outputs])

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def kill(self) -> None:
        self.alive = False
