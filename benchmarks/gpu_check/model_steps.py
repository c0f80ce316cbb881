"""The steps about one model, end to end: eager, torch.compile, and our fusion pass with our kernels. In a child.

`ours` is the fused graph compiled by Inductor, `ours eager` the same graph uncompiled. One process times all four in
turns, so figures are medians without a verdict: two identical processes differ by more than such an interval says.
A contender whose answers are wrong has no times. Bfloat16 is the module's own `.to`, without a task's metric.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu_check.clock import Clock
from benchmarks.gpu_check.kernel_steps import text_of
from benchmarks.gpu_check.times import summary_us

ROOT = Path(__file__).resolve().parents[2]
MODELS = {"din": "din.py", "dlrm": "dlrm.py", "bert": "bert_encoder.py", "llama": "llama_decoder.py"}
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ROUNDS = 12
ERROR_RATIO, ERROR_FLOOR = 3.0, 1e-5  # of the answers' spread: the rule of docs/verifying.md
SEED = 0

Call = Callable[[], Any]


def model_step(name: str, precision: str, device: str, clock: Clock, *, compiled: bool = True) -> dict[str, Any]:
    """`compiled`: Inductor takes part; without it only what runs at once does."""
    missing = why_no_fusion()
    if missing is not None:
        return {"status": "left_out", "reason": missing}
    if compiled:
        torch._dynamo.reset()  # of the models before
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    module, inputs = load(name)
    with torch.no_grad():
        exact = module(*inputs)  # in float32 on the CPU: independent of the device's libraries
    module = module.to(PRECISIONS[precision]).to(device)
    inputs = tuple(_as_given(value, PRECISIONS[precision], device) for value in inputs)
    fused, sites, refused = fuse(module, inputs)
    contenders: dict[str, nn.Module] = {"eager": module, "ours eager": fused}
    if compiled:
        contenders |= {"torch.compile": torch.compile(module), "ours": torch.compile(fused)}
    told, calls = _prepared(contenders, inputs, exact)
    times = _in_turns(calls, clock)
    for contender, found in times.items():
        told[contender] |= summary_us(found)
    wrong = [one for one in ("ours eager", "ours") if told.get(one, {}).get("fault")]
    return {
        "status": "wrong" if wrong else "passed",
        "contenders": told,
        "fused": sites,
        "refused": refused[:20],
        "speedups": _speedups(times),
    }


def why_no_fusion() -> str | None:
    """What the fusion pass lacks here, with the remedy; None where it can be imported."""
    try:
        importlib.import_module("optimizer.optimizing.passes.fuse_operations")
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed here, and the fusion pass needs it: bring its wheel (docs/kernels.md)"
    return None


def load(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """One of the examples, and inputs for it, as its own file makes them."""
    path = ROOT / "examples" / MODELS[name]
    spec = importlib.util.spec_from_file_location(f"gpu_check_{name}", path)
    assert spec is not None and spec.loader is not None
    file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(file)
    module: nn.Module = file.Model(*file.get_init_inputs())
    torch.manual_seed(SEED)
    return module.eval(), tuple(file.get_inputs())


def fuse(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[nn.Module, list[str], list[str]]:
    """The model's graph after our fusion pass, what was fused, and what only looked like it."""
    from optimizer.optimizing.base import run_passes
    from optimizer.optimizing.graph import Graph

    with torch.no_grad():
        graph = Graph.from_exported(torch.export.export(module, inputs))
        (rewrite,) = run_passes(graph, [("fuse_operations", {})])
        fused = graph.to_exported().module()
    sites, refused = ([f"{one.node}: {one.reason}" for one in side] for side in (rewrite.applied, rewrite.refused))
    return fused, sites, refused


def _as_given(value: Any, dtype: torch.dtype, device: str) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.to(device, dtype) if value.is_floating_point() else value.to(device)


def _prepared(
    contenders: dict[str, nn.Module], inputs: tuple[Any, ...], exact: Tensor
) -> tuple[dict[str, dict[str, Any]], dict[str, Call]]:
    """Each called once and compared; those that are right, to be timed."""
    told: dict[str, dict[str, Any]] = {}
    calls: dict[str, Call] = {}
    allowed = 0.0
    for name, module in contenders.items():
        began = time.perf_counter()
        try:
            with torch.no_grad():
                answer = module(*inputs)
        except Exception as error:  # Inductor raises many kinds; a model that eager cannot run is a fault
            if name == "eager":
                raise
            told[name] = {"fault": text_of(error)}
            continue
        distance = error_of(answer, exact)
        if name == "eager":
            allowed = ERROR_RATIO * distance + ERROR_FLOOR
        told[name] = {"error": distance, "allowed": allowed, "first_call_s": round(time.perf_counter() - began, 3)}
        if name != "eager" and not distance <= allowed:
            told[name]["fault"] = "its answers are further from float32 on a CPU than is allowed"
            continue
        calls[name] = _call(module, inputs)
    return told, calls


def _call(module: nn.Module, inputs: tuple[Any, ...]) -> Call:
    def call() -> Any:
        with torch.no_grad():
            return module(*inputs)

    return call


def error_of(got: Tensor, want: Tensor) -> float:
    """Relative L2, by the spread of what is wanted. NaN is as wrong as can be."""
    got, want = got.cpu().double(), want.double()
    error = (torch.linalg.vector_norm(got - want) / torch.linalg.vector_norm(want - want.mean())).item()
    return error if error == error else float("inf")


def _in_turns(calls: dict[str, Call], clock: Clock) -> dict[str, list[float]]:
    """Rounds of all contenders in a random order; of each round its median. What is in a cache stays there."""
    order = random.Random(SEED)
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name in order.sample(sorted(calls), len(calls)):
            found[name].append(statistics.median(clock.times_us(calls[name], limit_s=0.03, cold=False)))
    return found


def _speedups(times: dict[str, list[float]]) -> dict[str, float]:
    """Of each over eager, and of ours over torch.compile: the median of the rounds' own ratios."""
    pairs = [(name, "eager") for name in times if name != "eager"]
    pairs += [("ours", "torch.compile")] if {"ours", "torch.compile"} <= times.keys() else []
    return {
        f"{one} over {other}": statistics.median(b / a for a, b in zip(times[one], times[other], strict=True))
        for one, other in pairs
    }
