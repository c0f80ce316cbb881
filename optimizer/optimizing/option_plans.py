"""Other options of an engine: for the best plan on it, where the profile shows that they may matter, and for an engine
by itself, where its documentation gives them. Pure.

Proposed for the rewritten graph and for the engine by itself alike: what an engine's option gives is no gain of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.result import Candidate, Profile
from optimizer.spec import BackendStep

PRODUCTS = frozenset({"linear", "addmm", "mm", "bmm", "baddbmm", "matmul"})
MUCH_IN_PRODUCTS = 0.3  # of the time
OTHER_LIBRARY: dict[str, dict[str, object]] = {"aot_inductor": {"gemm": "blas"}}
# PyTorch's documentation of max-autotune on a CPU: it has several implementations for frozen weights only.
AUTOTUNED: dict[str, dict[str, object]] = {"inductor": {"mode": "max-autotune", "freezing": True}}


def products_share(profile: Profile | None) -> float:
    """The share of the time in matrix products."""
    if profile is None:
        return 0.0
    return sum(row.share for row in profile.operations if row.op.rpartition(".")[2] in PRODUCTS)


def option_variants(plans: Sequence[Candidate], profile: Profile | None) -> list[Candidate]:
    """Each of `plans` once more with its engine's other library for matrix products."""
    share = products_share(profile)
    if share < MUCH_IN_PRODUCTS:
        return []
    why = f"{share:.0%} of the time is in matrix products, which another library computes too"
    return [found for plan in plans if (found := _with(plan, OTHER_LIBRARY, why)) is not None]


def autotuned(plan: Candidate) -> Candidate | None:
    """An engine's plan once more with every matrix product by what was fastest when it was compiled; None where the
    engine has no such option, or the plan states it."""
    return _with(plan, AUTOTUNED, "the compiler times what it can compute each matrix product with")


def _with(plan: Candidate, known: Mapping[str, dict[str, object]], why: str) -> Candidate | None:
    *rest, last = plan.steps
    options = known.get(last.backend) if isinstance(last, BackendStep) else None
    if not isinstance(last, BackendStep) or options is None or options.keys() & last.options.keys():
        return None
    label = "".join(f" {key}={value}" for key, value in options.items())
    return plan.model_copy(
        update={
            "name": plan.name.replace(last.backend, last.backend + label, 1),
            "steps": [*rest, last.model_copy(update={"options": {**last.options, **options}})],
            "why": why,
        }
    )
