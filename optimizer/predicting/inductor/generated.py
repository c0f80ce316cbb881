"""Inductor's generated kernels as the compiler wants them: every configuration that tuning would choose from.

A kernel's file is imported as Inductor would import it; its decorator then knows the configurations, the launch grid
and what is aligned.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.aot.compiler import ALIGNMENT, Source


@dataclass(frozen=True)
class Choice:
    """One configuration of a generated kernel."""

    name: str
    source: Source
    grid: tuple[int, ...]


def choices(name: str, text: str, arguments: Sequence[Any], scratch: Path) -> list[Choice]:
    """Within `absent_gpu`. `arguments`: of its first launch, which decide the grid."""
    from torch._inductor.runtime.triton_heuristics import GridExpr

    tuner = _import(name, text, scratch)
    meta = tuner.triton_meta
    found = []
    for config in tuner.configs:
        constants = {**meta["constants"], **config.kwargs}
        parameters = list(tuner.fn.arg_names)
        signature = {p: "constexpr" if p in constants else meta["signature"][p] for p in parameters}
        attributes = meta["configs"][0]
        aligned = [
            parameters[place[0]] for place, attrs in attributes.items() if ["tt.divisibility", ALIGNMENT] in attrs
        ]
        given = [p for p in parameters if meta["signature"].get(p) != "constexpr"]
        grid = GridExpr.from_meta(tuner.inductor_meta, config).eval_slow(dict(zip(given, arguments, strict=False)))
        source = Source(
            function=tuner.fn,
            signature=signature,
            constants=constants,
            aligned=aligned,
            num_warps=config.num_warps,
            num_stages=config.num_stages,
            options={"enable_fp_fusion": True},
        )
        sizes = [f"{key}={value}" for key, value in config.kwargs.items()]
        label = " ".join([*sizes, f"warps={config.num_warps}", f"stages={config.num_stages}"])
        found.append(Choice(label, source, tuple(int(size) for size in grid)))
    return found


def _import(name: str, text: str, scratch: Path) -> Any:
    """Triton reads a function's source from its file, so there must be one."""
    path = scratch / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
