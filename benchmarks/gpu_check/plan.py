"""Which steps there are, in which order, and how much of the time each phase may have used when it ends. No torch.

Smallest first: every kernel once in each dtype and configuration, then speed, then whole models, then all edges, then
the models in bfloat16. What a phase leaves of its time the next ones have; what does not fit is tried once more at the
end, and else named as left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MODELS = ("din", "dlrm", "bert", "llama")
BUDGET_S = 480.0
MOST_WORKERS = 8


@dataclass(frozen=True)
class Phase:
    """`until`: the share of the whole time that is over when it ends. `alone`: it measures, so one child at a time."""

    title: str
    steps: tuple[str, ...]
    until: float
    alone: bool


def phases(kernels: Sequence[str], *, dry: bool) -> list[Phase]:
    """`dry`: what can be done under the interpreter, for a few shapes."""

    def each(verb: str) -> tuple[str, ...]:
        return tuple(f"{verb} {kernel}" for kernel in kernels)

    def models(precision: str) -> tuple[str, ...]:
        return tuple(f"model {name} {precision}" for name in MODELS)

    if dry:
        return [
            Phase("Kernels against their references", each("check"), 0.5, alone=False),
            Phase("Configurations", each("tune"), 0.8, alone=True),
            Phase("A whole model", ("model din float32",), 1.0, alone=True),
        ]
    return [
        Phase("Kernels against their references", each("check"), 0.22, alone=False),
        Phase("Configurations and the roofline", each("tune"), 0.45, alone=True),
        Phase("Whole models", models("float32"), 0.78, alone=True),
        Phase("Edges and other shapes", each("edges"), 0.90, alone=False),
        Phase("Whole models in bfloat16", models("bfloat16"), 1.0, alone=True),
    ]


def workers_for(phase: Phase, processors: int) -> int:
    """Compiling is the processor's work: half of the processors, each with a process of its own on the GPU."""
    return 1 if phase.alone else max(1, min(MOST_WORKERS, processors // 2))
