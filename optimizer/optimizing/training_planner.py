"""Proposes candidates for a training step. Pure, as the planner for inference is.

Peers are what PyTorch's documentation gives: torch.compile of forward and backward with the optimizer as it is, and
with the optimizer compiled too. Ours are the step as the passes changed it, eager and compiled, since either may lead.
"""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.optimizing.planner import WORTH_REWRITING, Dropped, Planner
from optimizer.result import Candidate

EAGER, COMPILED = "eager_step", "inductor_step"
COMPILED_OPTIMIZER: dict[str, object] = {"optimizer": "compiled"}
FUSES_THE_OPTIMIZER = "fuse_optimizer"


class TrainingPlanner(Planner):
    """What is common (leaving steps out, naming what is dropped) is the planner's for inference."""

    def peers(self) -> list[Candidate]:
        if not self._usable((COMPILED,), peer=True):
            return []
        why = "forward and backward compiled"
        return [
            self._candidate(COMPILED, (), peer=True, why=f"{why}, the optimizer as it is"),
            self._candidate(COMPILED, (), peer=True, options=COMPILED_OPTIMIZER, why=f"{why}, the optimizer too"),
        ]

    def low_precision(self) -> list[Candidate]:
        """None: a training step is searched in float32 only."""
        return []

    def first_rewritten(self) -> list[Candidate]:
        """Eager first: it needs no build, so that the first comparison comes soon."""
        return self._rewritten(self._usable((EAGER, COMPILED))) if self.passes() else []

    def more_rewritten(
        self, screened: Mapping[str, float], untimed: Mapping[str, str] | None = None
    ) -> list[Candidate]:
        """The passes that leave the optimizer alone, with the optimizer compiled, where that holds its own."""
        passes = tuple(step for step in self.passes() if step.pass_ != FUSES_THE_OPTIMIZER)
        if not passes or not self._usable((COMPILED,)):
            return []
        name = "rewrites but for " + FUSES_THE_OPTIMIZER
        whole = self._candidate(COMPILED, passes, options=COMPILED_OPTIMIZER, why="the optimizer compiled, not fused")
        candidate = whole.model_copy(update={"name": whole.name.replace("rewrites", name)})
        alone = {key: speed for key, speed in screened.items() if key.startswith(COMPILED)}
        mine, best = alone.get(f"{COMPILED} optimizer=compiled"), max(alone.values(), default=0.0)
        if mine is None or mine < WORTH_REWRITING * best:
            share = "gave no correct and timed answer" if mine is None else f"reaches {mine / best:.0%} of the other's"
            self.dropped.append(Dropped(candidate, f"the compiled optimizer by itself {share}"))
            return []
        return [candidate]
