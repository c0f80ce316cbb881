"""Figures and verdicts in words, for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.result import (
    Convergence,
    Evaluation,
    EvaluationStatus,
    Interval,
    LayerPlan,
    LayerPrecision,
    LimitCheck,
    Result,
    RunStatus,
    TaskMetric,
    Verdict,
)
from optimizer.spec import LayerShape, Mode

VERDICTS = {
    Verdict.FASTER: "faster",
    Verdict.SLOWER: "slower",
    Verdict.SAME: "no difference beyond the noise",
    Verdict.CANNOT_TELL: "cannot tell",
}
BASELINES = frozenset({"baseline", "baseline (default settings)"})
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def headline(result: Result) -> str:
    """One sentence: what the run found."""
    if result.status != RunStatus.SUCCEEDED:
        return f"The run {result.status.value.replace('_', ' ')}"
    if result.predicted is not None and result.verdict is None:
        return f"Predicted for {result.predicted.device}: nothing was measured"
    if result.speedup is None or result.verdict is None:
        return "Nothing was judged in this run"
    sentences = {
        Verdict.FASTER: f"{times(result.speedup)} faster than the original",
        Verdict.SLOWER: f"Slower than the original: {times(result.speedup)} its speed",
        Verdict.SAME: "No faster recipe found: no difference beyond the noise",
        Verdict.CANNOT_TELL: "Cannot tell: the interval is too wide for a verdict",
    }
    return sentences[result.verdict]


def called(result: Result) -> str:
    """What was timed: `one call`, or `one training step (loss, adagrad)`."""
    workload = result.workload
    if workload is None or workload.mode is not Mode.TRAINING or workload.optimizer is None:
        return "one call"
    return f"one training step ({workload.loss}, {workload.optimizer.name})"


def training_run(told: Convergence) -> str:
    """Of a candidate's short training run beside the original's, in one sentence."""
    first, last = told.losses[0], told.losses[-1]
    fell = "" if first is None or last is None else f" the loss went from {first:.4g} to {last:.4g};"
    return (
        f"{told.steps} steps of training on the same batches as the original:{fell} the two curves lie "
        f"{told.deviation:.1e} of the loss apart, rounding alone moves the original's by {told.noise:.1e}, and "
        f"{told.allowed:.1e} is allowed."
    )


def verdict(value: Verdict | None) -> str:
    return VERDICTS[value] if value is not None else "not judged"


def status(value: EvaluationStatus) -> str:
    return value.value.replace("_", " ")


def is_peer(evaluation: Evaluation, result: Result) -> bool:
    """The original is an engine without rewrites, too, and what the others are held against; no side of a comparison
    is a peer of the other."""
    return evaluation.candidate.peer and result.purpose != "compare" and evaluation.candidate.name not in BASELINES


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"


def interval(value: Interval | None) -> str:
    """`99 % interval 1.55 to 1.69`."""
    return "" if value is None else f"{value.confidence * 100:g} % interval {value.low:.2f} to {value.high:.2f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f} ms" if value < 1 else f"{value:.2f} ms" if value < 100 else f"{value:.0f} ms"


def size(value: float | None) -> str:
    if value is None:
        return ""
    for unit, name in _UNITS:
        if value >= unit:
            return f"{value / unit:.1f} {name}"
    return f"{value:.0f} B"


def count(value: float | None) -> str:
    """`2.95 G` for operations and the like."""
    if value is None:
        return ""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.2f} {name}"
    return f"{value:.0f}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.1f} %"


YARDSTICKS = {
    "spread": "of the spread",
    "size": "of the size (constant)",
    "unit": "absolute (all zero)",
    "places": "of the integers",
}


def measure(value: str) -> str:
    """What an output's errors are shares of."""
    return YARDSTICKS[value]


def task_metric(found: TaskMetric) -> str:
    """`auc 0.78123, original 0.78130: worse by 7.0e-05, 5.0e-04 allowed (40,960 labels)`."""
    moved = f"worse by {found.drop:.1e}" if found.drop > 0 else "no worse"
    return (
        f"{found.metric} {found.candidate:.5f}, original {found.baseline:.5f}: {moved}, "
        f"{found.max_drop:.1e} allowed ({found.samples:,} labels)"
    )


def layers(plan: LayerPlan) -> str:
    """What was chosen, in one sentence."""
    lower = [layer for layer in plan.layers if layer.precision != "float32"]
    tried, kind = plan.layers[0].tried, "linear layers" if _all_linear(plan) else "layers"
    if not lower:
        return f"None of {len(plan.layers)} {kind} goes to {tried}."
    names = " and ".join(plan.candidates)
    return (
        f"{tried} in {len(lower)} of {len(plan.layers)} {kind} of {names}: together they "
        f"take {plan.share_of_allowed:.0%} of the error that is allowed, over {plan.samples} samples."
    )


def _all_linear(plan: LayerPlan) -> bool:
    return all(layer.operation == "linear" for layer in plan.layers)


def layer_shape(layer: LayerPrecision) -> str:
    """`512 to 64`, `conv2d 64 to 128`."""
    return str(LayerShape(op=layer.operation, inputs=layer.inputs, outputs=layer.outputs))


def layer_precision(layer: LayerPrecision) -> str:
    return "int8, weights alone" if layer.weight_only and layer.precision == "int8" else layer.precision


def offered(result: Result) -> str:
    if not result.offered:
        return "Nothing is offered: what was measured is told, and no recipe or package comes of it."
    package = any(artifact.name == "package" for artifact in result.artifacts)
    return "Offered: a recipe and a package." if package else "Offered: a recipe."


LIMITS = {"latency_ms": "latency (p99 of a call)", "peak_memory_bytes": "peak memory", "max_error": "error"}


def limit_name(check: LimitCheck) -> str:
    return LIMITS[check.name]


def limit_value(value: float | None, check: LimitCheck) -> str:
    """In the unit of the limit."""
    if value is None:
        return "not measured"
    shown = {"latency_ms": milliseconds, "peak_memory_bytes": size, "max_error": "{:.1e}".format}[check.name]
    return shown(value)


def kept(value: bool | None) -> str:
    return "" if value is None else "kept" if value else "not kept"


def notes(result: Result) -> list[str]:
    """All that a reader must know besides: the run's notes, and what was noted while it was judged."""
    observed = result.conditions.observed.get("notes") if result.conditions else None
    return list(dict.fromkeys([*result.notes, *map(str, observed or [])]))


def options(found: Mapping[str, Any]) -> str:
    """`last_linears=1, layers=512 to 64 (0, 2)`: of layers, the shapes of their weights and which of their like."""
    told = []
    for key, value in found.items():
        if key.endswith("layers"):
            value = "; ".join(str(LayerShape.model_validate(one)) for one in value)
        told.append(f"{key}={value}")
    return ", ".join(told)


def step(document: Mapping[str, Any]) -> str:
    for kind in ("pass", "precision", "backend"):
        if kind in document:
            rest = {"rest": document["rest"]} if "rest" in document else {}
            rest |= {"weight_only_layers": document["weight_only"]} if "weight_only" in document else {}
            rest |= {f"rest_{key}": kept for key, kept in (document.get("rest_keep_float32") or {}).items()}
            listed = options({**(document.get("options") or document.get("keep_float32") or {}), **rest})
            return f"{kind} {document[kind]}" + (f" ({listed})" if listed else "")
    if "passes" in document:  # tidying passes, which an ablation takes away together
        return "passes " + ", ".join(map(str, document["passes"]))
    settings = ", ".join(f"{k}={v}" for k, v in dict(document.get("runtime") or {}).items())
    return f"runtime {settings}" if settings else "runtime defaults"
