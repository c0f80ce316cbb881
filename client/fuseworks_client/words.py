"""Figures and verdicts in words, and foreign text made harmless for a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

BUSY_SHARE = 0.1  # of a contender's bursts: what else runs takes part in the measurement

VERDICTS = {
    "faster": "faster",
    "slower": "slower",
    "same": "no difference beyond the noise",
    "cannot_tell": "cannot tell: the difference is within what this machine can resolve",
}


def plain(text: object) -> str:
    """Text that a model may have written: an escape sequence in an error message must not drive the terminal."""
    return _CONTROL.sub("", str(text))


def milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f} ms" if value < 1 else f"{value:.2f} ms" if value < 100 else f"{value:.0f} ms"


def speedup(value: float | None, interval: Mapping[str, Any] | None = None) -> str:
    """`1.62x (99 % interval 1.55 to 1.69)`."""
    if value is None:
        return ""
    text = f"{value:.2f}x"
    if interval:
        text += f" ({interval['confidence'] * 100:g} % interval {interval['low']:.2f} to {interval['high']:.2f})"
    return text


def disturbance(result: Mapping[str, Any]) -> str:
    """What else the cores were busy with while it was judged, in one sentence or two; empty where nothing is known."""
    conditions = result.get("conditions") or {}
    observed = conditions.get("observed") or {}
    shares, loads = observed.get("disturbed_shares") or {}, observed.get("load_averages") or []
    if not shares:
        return ""
    share, cores = max(shares.values()), (conditions.get("fixed") or {}).get("cores")
    told = [f"up to {share:.0%} of a contender's bursts had to wait for a core"]
    if observed.get("noise_floor") is not None:
        told.append(f"the noise floor is {observed['noise_floor']:.1%}")
    if loads:
        told.append(f"the load was up to {max(loads):.1f}" + (f" on {cores} cores" if cores else ""))
    text = ", ".join(told)
    if share < BUSY_SHARE:
        return f"{text[0].upper()}{text[1:]}."
    return f"The cores were busy with other work: {text}. Measure again on a quiet machine."


def verdict(value: str | None) -> str:
    return VERDICTS.get(value or "", "not judged")


def numerics(output: Mapping[str, Any]) -> str:
    """How far an output is off, in the measure that it was judged by."""
    kind = output.get("yardstick") or "spread"
    error, allowed = f"{output['error']:.1e}", f"{output['allowed']:.1e}"
    if kind == "places":
        return f"{output['error']:.2%} of its integers differ beyond ties, {output['allowed']:.2%} allowed"
    of = {"size": " of its size (it is constant)", "unit": " (it is zero everywhere)"}.get(kind, " of the spread")
    text = f"error {error}{of}, {allowed} allowed"
    if output.get("inputs") == "captured":
        text += ", on the captured samples"
    worst = output.get("worst_column")
    if worst:
        text += f"; worst column {worst['column']}: {worst['error']:.1e}, {worst['allowed']:.1e} allowed"
    return text


def task_metric(found: Mapping[str, Any]) -> str:
    """`auc 0.78123, original 0.78130: worse by 7.0e-05, 5.0e-04 allowed (40,960 labels)`."""
    moved = f"worse by {found['drop']:.1e}" if found["drop"] > 0 else "no worse"
    return (
        f"{found['metric']} {found['candidate']:.5f}, original {found['baseline']:.5f}: {moved}, "
        f"{found['max_drop']:.1e} allowed ({found['samples']:,} labels)"
    )


def limit(check: Mapping[str, Any], winner: str, baseline: str) -> str:
    """`p99 of 20.00 ms: winner 12.31 ms, kept; baseline 31.20 ms, not kept`."""
    name, shown = LIMITS[check["name"]]
    told = []
    for side, key in ((winner, "winner"), (baseline, "baseline")):
        value = check.get(key)
        kept = "kept" if check.get(f"{key}_kept") else "not kept"
        told.append(f"{side} not measured" if value is None else f"{side} {shown(value)}, {kept}")
    return f"{name} {shown(check['limit'])}: {'; '.join(told)}"


def mebibytes(value: float) -> str:
    return f"{value / (1 << 20):.1f} MiB"


LIMITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "latency_ms": ("p99 of a call", milliseconds),
    "peak_memory_bytes": ("peak memory", mebibytes),
    "max_error": ("error", "{:.1e}".format),
}


def gain(value: float | None) -> str:
    """What a step gave: the time without it over the time with it, as a percentage."""
    return "" if value is None else f"{(value - 1) * 100:+.1f} %"


def options(found: Mapping[str, Any]) -> str:
    """`last_linears=1, layers=512 to 64 (0, 2)`: of layers, the shapes of their weights and which of their like."""
    told = []
    for key, value in found.items():
        if key.endswith("layers"):
            value = "; ".join(layer_shape(one, one.get("op")) + _nth(one.get("nth")) for one in value)
        told.append(f"{key}={value}")
    return ", ".join(told)


def layer_shape(layer: Mapping[str, Any], operation: str | None) -> str:
    """`512 to 64`, `matmul 64 to any`."""
    sizes = ("any" if layer.get(key) is None else str(layer[key]) for key in ("inputs", "outputs"))
    return ("" if operation in (None, "linear") else f"{operation} ") + " to ".join(sizes)


def _nth(places: list[int] | None) -> str:
    return f" ({', '.join(map(str, places))})" if places else ""


def step(document: Mapping[str, Any]) -> str:
    """`pass split_target_attention`, `backend aot_inductor (freezing=True)`."""
    for kind in ("pass", "precision", "backend"):
        if kind in document:
            rest = {"rest": document["rest"]} if "rest" in document else {}
            rest |= {"weight_only_layers": document["weight_only"]} if "weight_only" in document else {}
            rest |= {f"rest_{key}": kept for key, kept in (document.get("rest_keep_float32") or {}).items()}
            listed = options({**(document.get("options") or document.get("keep_float32") or {}), **rest})
            return plain(f"{kind} {document[kind]}" + (f" ({listed})" if listed else ""))
    if "passes" in document:  # tidying passes, which an ablation takes away together
        return plain("passes " + ", ".join(map(str, document["passes"])))
    settings = ", ".join(f"{k}={v}" for k, v in dict(document.get("runtime") or {}).items())
    return plain(f"runtime {settings}" if settings else "runtime defaults")


def seconds(value: float) -> str:
    minutes, rest = divmod(round(value), 60)
    return f"{minutes}:{rest:02d}"
