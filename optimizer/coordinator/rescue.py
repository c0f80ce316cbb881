"""One wrong rewrite must not cost the others: a rewritten candidate that fails is tried without each pass in turn.

The suspect first, where verification named the operation that departs. What failed stays in the answer with its reason.
Not for an engine that fails by itself (but for ONNX Runtime: `own_optimizers.py`), nor where one pass is all there is:
without it the candidate is a peer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optimizer.coordinator import own_optimizers
from optimizer.coordinator.prepare import Bench
from optimizer.optimizing.planner import LeftOut, Planner, by_itself, culprits_first, has_passes
from optimizer.result import Candidate, Evaluation, EvaluationStatus
from optimizer.spec import PassStep

A_PASS_MAY_BE_GUILTY = {
    EvaluationStatus.INCORRECT_NUMERICS,
    EvaluationStatus.RUNTIME_ERROR,
    EvaluationStatus.COMPILE_ERROR,
    EvaluationStatus.CRASHED,
}
MOST_TRIES = 8  # for one candidate; the budget may end it earlier
TryOut = Callable[[Sequence[Candidate]], None]


@dataclass
class Rescue:
    """`try_out` evaluates candidates, or files that time was over; `at_once`: how many are built side by side."""

    bench: Bench
    planner: Planner
    try_out: TryOut
    at_once: int
    tries_left: int = 0
    baseline_looked_at: bool = False

    def run(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            if has_passes(candidate) and self._worth_it(candidate):
                self.tries_left = MOST_TRIES
                self._without_the_culprit(candidate)
        self._without_own_optimizers(candidates)

    def _without_own_optimizers(self, candidates: Sequence[Candidate]) -> None:
        """Of a runtime that is wrong on the original graph too, it is not a pass that must go."""
        proposed = own_optimizers.without_the_culprit(self.bench, candidates)
        if not self.baseline_looked_at:
            self.baseline_looked_at = True
            proposed += own_optimizers.beside_a_wrong_baseline(self.bench)
        if proposed:
            self.try_out(proposed)

    def _worth_it(self, candidate: Candidate) -> bool:
        if self._status(candidate) not in A_PASS_MAY_BE_GUILTY:
            return False
        alone = by_itself(candidate, [e.candidate for e in self.bench.answer.evaluations.values()])
        return alone is None or self._status(alone) == EvaluationStatus.PASSED

    def _status(self, candidate: Candidate) -> EvaluationStatus | None:
        evaluation = self.bench.answer.evaluations.get(candidate.name)
        return evaluation.status if evaluation else None

    def _without_the_culprit(self, whole: Candidate) -> bool:
        """Whether some plan with one pass less (or two, where the suspect was not the only one) passed."""
        evaluation = self.bench.answer.evaluations[whole.name]
        order, suspected = culprits_first(
            self.planner.leave_one_out(whole),
            self.planner.rewrites,
            _diverging(evaluation),
            self.planner.blamed,
        )
        if suspected:
            suspect, *order = order
            if self._tried(whole, [suspect]):
                return True
            if self._status(suspect.without) in A_PASS_MAY_BE_GUILTY and self._without_the_culprit(suspect.without):
                self._blame(whole, suspect)  # another was guilty as well
                return True
        batches = [order[at : at + self.at_once] for at in range(0, len(order), self.at_once)]
        return any(self._tried(whole, batch) for batch in batches)

    def _tried(self, whole: Candidate, batch: Sequence[LeftOut]) -> bool:
        batch = batch[: self.tries_left]
        self.tries_left -= len(batch)
        if not batch:
            return False
        self.try_out([one.without for one in batch])
        good = next((one for one in batch if self._status(one.without) == EvaluationStatus.PASSED), None)
        if good is None:
            if any(self._status(one.without) == EvaluationStatus.NOT_TRIED for one in batch):
                self.tries_left = 0  # the time is over
            return False
        self._blame(whole, good)
        return True

    def _blame(self, whole: Candidate, good: LeftOut) -> None:
        passes = [step.pass_ for step in good.steps if isinstance(step, PassStep)]
        evaluation = self.bench.answer.evaluations[whole.name]
        if _diverging(evaluation) is not None:
            self.planner.blamed.update(passes)  # the graph itself is wrong, so it is for every engine
        how = evaluation.status.value.replace("_", " ")
        text = f"{', '.join(passes)} is left out of {whole.name}, which failed with it ({how})."
        if evaluation.status == EvaluationStatus.INCORRECT_NUMERICS:
            text += " This is a fault of Fuseworks: please report it."
        self.bench.answer.note(self.bench.context, text)


def _diverging(evaluation: Evaluation) -> str | None:
    return evaluation.verification.first_diverging if evaluation.verification else None
