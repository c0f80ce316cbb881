"""What a backend is, and where backends register. Imports no torch: the coordinator reads names, schemas and refusals.

A backend is one file in `backends/`: a class with `@register_backend`. `build`, `load` and `profile` run in children.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

import optimizer.compiling.errors
import optimizer.profiling.errors  # noqa: F401
from kernels.registry import Registry, UnknownName
from optimizer.compiling.contender import Contender
from optimizer.errors import FuseworksError
from optimizer.profiling.document import MemoryTimeline, Operation, OperationSpan, Phase
from optimizer.spec import InputSpec, PrecisionStep, Workload

Format = Literal["pt2", "onnx", "step"]


class BackendOptions(BaseModel):
    """Options of a backend: frozen, described, and an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Context:
    """What building and loading share. Paths are the child's. `upload` is set for the baseline of a module only."""

    workload: Workload
    threads: int
    target: str
    scratch: Path
    format: Format
    model: Path
    precision: PrecisionStep | None = None
    upload: Path | None = None
    upload_format: str | None = None
    weights: Path | None = None
    seed: int = 0

    @property
    def device(self) -> str:
        """As torch names it: `cpu` or `cuda` (ROCm's too)."""
        return "cpu" if self.target == "cpu" else "cuda"

    @property
    def precision_name(self) -> str:
        return self.precision.precision if self.precision else "float32"


class Profiled(NamedTuple):
    """The operations of one call, and the median milliseconds of a call while they were looked at. `memory` where the
    engine tells it, `phases` of a training step, `timeline` of one call where it was recorded."""

    rows: list[Operation]
    call_ms: float
    memory: MemoryTimeline | None = None
    phases: Sequence[Phase] = ()
    timeline: Sequence[OperationSpan] = ()


class Backend(ABC):
    """One engine. `build` leaves the artifact's files, flat, in `out`; none at all means: the model itself is run."""

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    formats: ClassVar[frozenset[str]]
    libraries: ClassVar[tuple[str, ...]]
    # to these the engine lowers by itself, so the graph is not rewritten for them
    own_precisions: ClassVar[frozenset[str]] = frozenset()
    # by what means `profile` looks into a call, in words; empty: the engine does not say where its time goes
    profiled_by: ClassVar[str] = ""
    # True: kernels record themselves only where they were compiled to: `profile` takes what `build_marked` leaves
    needs_marks: ClassVar[bool] = False

    class Options(BackendOptions):
        """No options."""

    @abstractmethod
    def unavailable(self, target: str = "cpu") -> str | None:
        """Why this machine cannot use the backend, with the remedy; None when it can. Imports no engine."""

    @abstractmethod
    def prepare(self) -> None:
        """Imports the engine, so that memory after import can be told from the model's."""

    @abstractmethod
    def build(self, model: Path, options: Any, context: Context, out: Path) -> dict[str, Any]:
        """Compiles; the answer's `entry` and `load` are what a package needs to load it. Raises FuseworksError."""

    @abstractmethod
    def load(self, artifact: Path | None, options: Any, context: Context) -> Contender:
        """Ready to be called. Raises FuseworksError."""

    def no_profile(self, target: str = "cpu") -> str | None:
        """Why there is no profile of this backend's contenders; None when there is one."""
        return None if self.profiled_by else "the engine does not say where its time goes"

    def build_marked(self, model: Path, options: Any, context: Context, out: Path) -> None:
        """The artifact once more, of kernels that record themselves; for `profile` only. Raises FuseworksError."""
        raise FuseworksError("profiling:ours:untold", engine=self.title, text="it has no kernels to be marked")

    def profile(
        self, artifact: Path | None, options: Any, context: Context, arrays: Sequence[np.ndarray], calls: int
    ) -> Profiled:
        """Where a call spends its time, by this engine's own means. Raises FuseworksError."""
        raise FuseworksError("profiling:ours:untold", engine=self.title, text=self.no_profile(context.target))

    def manifest(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "summary": self.summary,
            "formats": sorted(self.formats),
            "options_schema": self.Options.model_json_schema(),
        }


BACKENDS: Registry[Backend] = Registry("backend", "optimizer.compiling.backends")
BackendClass = TypeVar("BackendClass", bound=Callable[[], Backend])


def register_backend(definition: BackendClass) -> BackendClass:
    """Class decorator: the backend is known under its `name` from here on."""
    BACKENDS.register(definition)
    return definition


def resolve(name: str, options: dict[str, Any], format: str | None = None) -> tuple[Backend, BackendOptions]:
    """Raises FuseworksError `compiling:user:unknown-backend`, `bad-options`, `wrong-format`."""
    try:
        backend = BACKENDS.get(name)
    except UnknownName:
        raise FuseworksError("compiling:user:unknown-backend", name=name, known=", ".join(BACKENDS.names())) from None
    if format is not None and format not in backend.formats:
        formats = " or ".join(sorted(backend.formats))
        raise FuseworksError("compiling:user:wrong-format", name=name, formats=formats, format=format)
    try:
        return backend, backend.Options.model_validate(options)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'options'}: {e['msg']}" for e in error.errors())
        raise FuseworksError("compiling:user:bad-options", name=name, text=problems) from None


# ---- sizes that an artifact is tried at ------------------------------------------------------------------------------


def serving_sizes(workload: Workload) -> list[dict[str, int]]:
    """The sizes that production sees: all dims' first serve sizes, then their second, and so on."""
    rounds = max((len(dim.serve) for dim in workload.dims.values()), default=1)
    return [{name: dim.serve[min(i, len(dim.serve) - 1)] for name, dim in workload.dims.items()} for i in range(rounds)]


def end_sizes(workload: Workload) -> list[dict[str, int]]:
    """The smallest and the largest size of every dimension."""
    return [{n: d.min for n, d in workload.dims.items()}, {n: d.max for n, d in workload.dims.items()}]


def plain_inputs(workload: Workload, sizes: dict[str, int]) -> list[np.ndarray]:
    """Constant inputs within the contract: enough to make an engine compile for a size, no good for numerics."""
    return [_plain(spec, workload.shape_of(spec, sizes)) for spec in workload.inputs]


def _plain(spec: InputSpec, shape: tuple[int, ...]) -> np.ndarray:
    if spec.dtype in {"float16", "bfloat16"}:
        return np.ones(shape, np.float32)
    if spec.dtype.startswith("float") or spec.dtype == "bool":
        return np.ones(shape, spec.dtype)
    return np.full(shape, spec.values.from_ if spec.values else 0, spec.dtype)
