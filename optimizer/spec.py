"""What a run is asked to do: the workload, the policy and the run spec. One schema for command line, API and pages."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Dtype = Literal["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)  # the most precise first
SHORT_BUDGET_S = 60  # below it a run is warned of: it rarely comes to a verdict


class Strict(BaseModel):
    """Frozen, and an unknown field is an error: a misspelt limit must not be silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Purpose(StrEnum):
    INSPECT = "inspect"
    OPTIMIZE = "optimize"
    REPLAY = "replay"
    COMPARE = "compare"
    EXPLAIN = "explain"
    DIAGNOSE = "diagnose"


class Mode(StrEnum):
    INFERENCE = "inference"
    TRAINING = "training"


class Values(Strict):
    """How an input's values are drawn. At most one of the distributions; none means the default for the dtype:
    standard normal for floats, uniform in [from, below) for integers, fair coin for bools."""

    zipf: float | None = Field(default=None, gt=0, description="exponent of a bounded Zipf law over [from, below)")
    normal: tuple[float, float] | None = Field(default=None, description="mean, standard deviation")
    uniform: tuple[float, float] | None = Field(default=None, description="low, high (high excluded)")
    bernoulli: float | None = Field(default=None, ge=0, le=1, description="share of ones")
    constant: float | None = None
    from_: int = Field(default=0, alias="from", description="smallest integer")
    below: int | list[int] | None = Field(
        default=None, description="integers stay below this; a list gives one bound per column of the last dimension"
    )

    @model_validator(mode="after")
    def _one_distribution(self) -> Values:
        given = [n for n in ("zipf", "normal", "uniform", "bernoulli", "constant") if getattr(self, n) is not None]
        if len(given) > 1:
            raise ValueError(f"one distribution at most, got {' and '.join(given)}")
        return self


class InputSpec(Strict):
    """One input of the model. A string in `shape` names a dynamic dimension declared in `dims`."""

    name: str
    dtype: Dtype
    shape: list[int | str]
    values: Values | None = None

    def beyond(self, rows: Sequence[int | None]) -> str | None:
        """Why `values.below` reaches beyond tables of so many rows, one for each column of the last dimension or one
        for all; None where it does not. A column that indexes no table has None."""
        if self.values is None or self.values.below is None:
            return None
        below = self.values.below
        last = self.shape[-1] if self.shape else None
        if isinstance(below, list) and below and last != len(below):
            return f"input {self.name!r} has {last} columns and {len(below)} bounds in `below`"
        given = below if isinstance(below, list) else [below] * len(rows)
        if len(given) != len(rows):
            given = [max(given)] * len(rows)
        for column, (value, known) in enumerate(zip(given, rows, strict=True)):
            if known is not None and value > known:
                where = f"column {column} of input {self.name!r}" if len(given) > 1 else f"input {self.name!r}"
                return f"{where} goes up to {value - 1}, but the table that it indexes has {known} rows"
        return None


class Dim(Strict):
    """A dynamic dimension. `serve`: the sizes production sees; the first one is measured, all are verified."""

    serve: list[int] = Field(min_length=1)
    min: int = Field(default=1, ge=1)
    max: int = Field(ge=1)

    @model_validator(mode="after")
    def _within(self) -> Dim:
        if not all(self.min <= size <= self.max for size in self.serve):
            raise ValueError(f"serve sizes {self.serve} must lie within [{self.min}, {self.max}]")
        return self


class Limits(Strict):
    """Told of the winner and the baseline, kept or not. What takes more memory is no candidate; `max_error` bounds
    verification: it tightens float32's own rule and never loosens it, and is the bound of a lower precision."""

    latency_ms: float | None = Field(default=None, gt=0, description="of the 99th percentile of single calls")
    peak_memory_bytes: int | None = Field(default=None, gt=0)
    max_error: float | None = Field(default=None, gt=0, description="centred relative L2 error against float64")


class Contract(Strict):
    same_over_batch: list[str] = Field(min_length=1)


class Labels(Strict):
    label: str
    metric: Literal["auc", "normalised_entropy", "accuracy"]
    max_drop: float


class Optimizer(Strict):
    """What a training step updates the parameters with; all else as `torch.optim` has it by default."""

    name: Literal["sgd", "adam", "adamw", "adagrad"]
    lr: float = Field(gt=0, allow_inf_nan=False, description="learning rate")


class Workload(Strict):
    """How a model version is called. In mode `training` a call is one step: forward, loss, backward, update; `inputs`
    are the model's, then the targets (the loss's parameters behind the model's output)."""

    name: str = "serving"
    mode: Mode = Mode.INFERENCE
    loss: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,79}$",
        description="training: the function of the module that takes the model's output and the targets",
    )
    optimizer: Optimizer | None = Field(default=None, description="training only")
    inputs: list[InputSpec] = Field(min_length=1)
    dims: dict[str, Dim] = Field(default_factory=dict)
    samples: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}\.safetensors$",
        description="file in the upload's zip: one tensor per input, of rows [samples, ...] or of whole calls "
        "[samples, *shape]",
    )
    labels: Labels | None = None
    contracts: list[Contract] = Field(default_factory=list)
    limits: Limits = Limits()
    precisions: Annotated[list[Precision], Field(min_length=1)] | None = Field(
        default=None, description="those that serving may use; null: all that the policy allows"
    )

    @field_validator("inputs")
    @classmethod
    def _distinct(cls, inputs: list[InputSpec]) -> list[InputSpec]:
        names = [i.name for i in inputs]
        if len(set(names)) != len(names):
            raise ValueError(f"input names repeat: {names}")
        return inputs

    @model_validator(mode="after")
    def _dims_declared(self) -> Workload:
        used = {d for i in self.inputs for d in i.shape if isinstance(d, str)}
        missing = used - set(self.dims)
        if missing:
            raise ValueError(f"dimensions {sorted(missing)} are used in shapes but not declared in dims")
        return self

    @model_validator(mode="after")
    def _loss_is_for_training(self) -> Workload:
        if self.mode is Mode.INFERENCE and (self.loss is not None or self.optimizer is not None):
            raise ValueError("loss and optimizer are for mode training")
        return self

    @model_validator(mode="after")
    def _contracts_name_inputs(self) -> Workload:
        names = {i.name for i in self.inputs}
        strange = [n for contract in self.contracts for n in contract.same_over_batch if n not in names]
        if strange:
            raise ValueError(f"contracts name {', '.join(strange)}, and the inputs are {', '.join(sorted(names))}")
        return self

    def sizes(self) -> dict[str, int]:
        """The size of each dynamic dimension that is measured: its first serve size."""
        return {name: dim.serve[0] for name, dim in self.dims.items()}

    def same_over_batch(self) -> list[str]:
        """The inputs that are promised to repeat over the batch, in the order of `inputs`."""
        promised = {name for contract in self.contracts for name in contract.same_over_batch}
        return [spec.name for spec in self.inputs if spec.name in promised]

    def shape_of(self, spec: InputSpec, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(sizes[d] if isinstance(d, str) else d for d in spec.shape)


# ---- steps of a candidate and of a recipe: one shape in both -------------------------------------------------------


class RuntimeSettings(Strict):
    """Settings of the serving process. `glibc-no-trim`: malloc neither trims nor maps, so pages are faulted in once.
    Binding and waiting are those of torch's engines: ONNX Runtime and OpenVINO have threads of their own."""

    allocator: Literal["default", "glibc-no-trim"] = "default"
    huge_pages: bool = Field(default=False, description="glibc malloc asks for transparent huge pages")
    threads: int | None = Field(default=None, ge=1, le=1024, description="intra-op threads; null keeps the run's")
    thread_binding: Literal["none", "cores"] = Field(
        default="none", description="cores: OpenMP keeps each thread on a core of its own"
    )
    thread_waiting: Literal["default", "active", "passive"] = Field(
        default="default",
        description="OpenMP threads without work: spin (active), sleep at once (passive), or spin a while (default)",
    )
    denormals: Literal["kept", "flushed"] = Field(
        default="kept", description="flushed: the processor takes floats below some 1e-38 as zero"
    )


class LayerShape(Strict):
    """Layers of one operation and shape: a layer's place among its like, which rewrites elsewhere do not move."""

    op: str = Field(
        default="linear",
        max_length=80,
        description="linear, however it is written: layers with constant weights; else the aten operation, such as "
        "matmul or conv2d",
    )
    inputs: int | None = Field(
        default=None,
        ge=1,
        description="what a linear layer takes; of others, what each product sums over or a table's rows",
    )
    outputs: int | None = Field(default=None, ge=1, description="null: it varies from call to call")
    nth: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=list, description="which of them, in the order of the graph, from 0; empty: all"
    )

    def __str__(self) -> str:
        """`512 to 64 (0, 2)`, `matmul 64 to any`."""
        sizes = " to ".join("any" if size is None else str(size) for size in (self.inputs, self.outputs))
        words = sizes if self.op == "linear" else f"{self.op} {sizes}"
        return words + (f" ({', '.join(map(str, self.nth))})" if self.nth else "")


class KeepFloat32(Strict):
    """What stays float32 under a lower precision: by structure, never by a model's own names."""

    last_linears: int = Field(default=0, ge=0)
    ops: list[str] = Field(default_factory=list, description="aten operation names, such as softmax")
    layers: list[LayerShape] = Field(
        default_factory=list, description="by operation and shape; int8 knows linear layers only"
    )


class RuntimeStep(Strict):
    runtime: RuntimeSettings


class PassStep(Strict):
    pass_: str = Field(alias="pass", max_length=80)
    options: dict[str, Any] = Field(default_factory=dict)


class PrecisionStep(Strict):
    precision: Precision
    keep_float32: KeepFloat32 = KeepFloat32()
    weight_only: list[LayerShape] = Field(
        default_factory=list,
        description="under int8: linear layers of which the weights alone are int8, and inputs bfloat16",
    )
    rest: Literal["float32", "bfloat16"] = Field(
        default="float32", description="under int8: what all that is not int8 computes in, layers that are kept, too"
    )

    rest_keep_float32: KeepFloat32 = Field(
        default=KeepFloat32(), description="what stays float32 of a rest in bfloat16; places count what is not int8"
    )

    @model_validator(mode="after")
    def _rest_is_that_of_int8(self) -> PrecisionStep:
        if self.rest != "float32" and self.precision != "int8":
            raise ValueError(f"`rest` is what int8 leaves, and the precision is {self.precision}")
        if self.weight_only and self.precision != "int8":
            raise ValueError(f"`weight_only` layers are int8, and the precision is {self.precision}")
        if self.rest == "float32" and self.rest_keep_float32 != KeepFloat32():
            raise ValueError("`rest_keep_float32` is what stays of a rest in bfloat16, and the rest is float32")
        return self


class BackendStep(Strict):
    backend: str = Field(max_length=40)
    options: dict[str, Any] = Field(default_factory=dict)


Step = Annotated[RuntimeStep | PassStep | PrecisionStep | BackendStep, Field(union_mode="smart")]


def dump_step(step: Step) -> dict[str, Any]:
    """The step as recipes, results and pages write it; defaults left out."""
    document: dict[str, Any] = step.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    return document


# ---- the run -------------------------------------------------------------------------------------------------------


class Policy(Strict):
    """What a run may spend and risk."""

    budget_s: float = Field(default=290.0, gt=0, description="work time; queueing does not count")
    precisions: list[Precision] = Field(default=["float32"], min_length=1)
    backends: list[str] | None = Field(default=None, description="null: all that this machine has")
    threads: int | None = Field(default=None, ge=1, description="null: all physical cores this process may use")
    runtime_settings: bool = Field(default=True, description="may propose allocator and huge pages")
    max_error_ratio: float = Field(default=3.0, gt=0, description="error(candidate) <= this * error(baseline) + floor")
    max_pairs: int = Field(default=18, ge=6, le=60)
    rivals: Literal["best", "all", "all_as_run"] = Field(
        default="best",
        description="all: every peer that passed in the winner's precision or in float32 is judged with it; "
        "all_as_run: and each once more in default settings, as users run it",
    )
    ablation: bool = True
    seed: int | None = Field(default=None, description="null: drawn afresh and recorded")


class RunSpec(Strict):
    """One spec per coordinator. Paths are the host's; the upload is opened only by the inspector and in children.

    `model`: of `diagnose` a profiler trace, or a zip of the traces of one job."""

    purpose: Purpose = Purpose.OPTIMIZE
    model: str
    against: str | None = Field(default=None, description="compare: the second model; diagnose: the traces before")
    workload: Workload | None = Field(default=None, description="null: filled from what the upload says")
    target: str = "cpu"
    policy: Policy = Policy()
    recipe: str | None = Field(
        default=None,
        description="path of the recipe document. replay: what is applied; compare: what packages both models (null: "
        "each is measured as its own framework runs it)",
    )
    trusted: bool = Field(default=False, description="run without the sandbox: one's own file only")
    out: str
