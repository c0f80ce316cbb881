"""What a comparison measures of each model: the upload as its own framework runs it, or as a recipe's steps package it.

Packaged means what a replay means by it: the precondition is checked against the graph, the steps are applied exactly,
and what they build is held against the model's own float64 reference before it is timed, under the steps' settings.
Not checked is whether the run's policy allows the recipe's precision: what is deployed is what is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.evaluate import verified
from optimizer.coordinator.prepare import Bench, make_verifier
from optimizer.coordinator.replay import candidate_of, must_pass, ready_to_build, why_not
from optimizer.coordinator.workshop import Plan
from optimizer.errors import FuseworksError, catalogue
from optimizer.recipe import Recipe
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Performance
from optimizer.spec import RuntimeSettings

Role = Literal["baseline", "other"]
BEFORE: Role = "baseline"
AFTER: Role = "other"

catalogue(
    {
        "compare:user:before-not-packaged": (
            "{model}, the model to compare with, cannot be measured as packaged: {text}",
            "Optimize it anew on this machine to have steps that work for it, or compare the two as uploaded.",
        ),
        "compare:user:after-not-packaged": (
            "{model} cannot be packaged as the model that it is compared with: {text}",
            "Optimize the new model to find steps that fit it, or compare the two as uploaded.",
        ),
    }
)


@dataclass(frozen=True)
class Side:
    """One of the two, ready to be measured. `of_build`: what its performance tells of the build beside the times."""

    bench: Bench
    evaluation: Evaluation
    of_build: dict[str, Any] = field(default_factory=dict)

    @property
    def candidate(self) -> Candidate:
        return self.evaluation.candidate

    @property
    def settings(self) -> RuntimeSettings:
        return Plan.of(self.candidate).settings

    @property
    def name(self) -> str:
        """Of the file."""
        return str(self.bench.captured.upload.name)

    def measured(self, performance: Performance) -> Evaluation:
        return self.evaluation.model_copy(update={"performance": performance.model_copy(update=self.of_build)})


def as_uploaded(role: Role, bench: Bench) -> Side:
    baseline = bench.baseline(RuntimeSettings())
    candidate = baseline.model_copy(update={"name": role, "why": str(bench.captured.upload.name)})
    return Side(bench, Evaluation(candidate=candidate, status=EvaluationStatus.PASSED))


def as_packaged(role: Role, bench: Bench, recipe: Recipe, answer: Answer) -> Side:
    """Files what came of the steps with the `answer`, good or bad. Raises FuseworksError as `blamed` does."""
    candidate = candidate_of(recipe, role, why=f"{bench.captured.upload.name}, packaged by {recipe.metadata.name}")
    with blamed(role, bench):
        refused = why_not(bench, recipe, candidate)
        if refused is not None:
            raise refused
        ready_to_build(bench.context, Plan.of(candidate))
        evaluation, of_build = verified(bench, make_verifier(bench), candidate)
        answer.file(evaluation)
        must_pass(evaluation, recipe)
        return Side(bench, evaluation, of_build)


@contextmanager
def blamed(role: Role, bench: Bench) -> Iterator[None]:
    """A model's fault in the block is told with the name of the model: what is wrong with the one that is compared with
    is no fault of the new one's. What is ours or the machine's stays as it is."""
    try:
        yield
    except FuseworksError as error:
        if error.side != "user":
            raise
        id_ = "compare:user:before-not-packaged" if role == BEFORE else "compare:user:after-not-packaged"
        name = str(bench.captured.upload.name)
        raise FuseworksError(id_, place=error.place, detail=error.detail, model=name, text=error.message) from error
