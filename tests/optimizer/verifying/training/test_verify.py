"""Training steps that are right pass; planted faults, each of a kind that has gone wrong somewhere, do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.compiling.step.contender import StepContender
from optimizer.compiling.step.runtime import RowUpdate
from optimizer.errors import FuseworksError
from optimizer.inputs import draw
from optimizer.result import Verification
from optimizer.spec import Policy, Workload
from optimizer.verifying.training.reference import StepReference
from optimizer.verifying.training.verify import TrainingVerifier
from tests.optimizer.capturing.uploads import Answer
from tests.optimizer.compiling.step.steps import captured, contender, rewritten
from tests.optimizer.verifying.local import LocalChild


def verifier(answer: Answer) -> TrainingVerifier:
    workload, rng = answer.workload, np.random.default_rng(3)
    reference = LocalChild(StepReference(answer.files["captured.step"], workload))
    one = TrainingVerifier(workload, Policy(), rng, reference, lambda: draw(workload, {}, rng))  # type: ignore[arg-type]
    one.prepare(LocalChild(contender(answer.files["captured.step"], workload)))  # type: ignore[arg-type]
    return one


class Prepared:
    """One step, captured once, with all that its candidates are asked."""

    def __init__(self, folder: Path, optimizer: str) -> None:
        folder.mkdir()
        self.answer = captured(folder, optimizer)
        self.verifier = verifier(self.answer)
        self.path = rewritten(self.answer.files["captured.step"])

    def candidate(self) -> StepContender:
        return contender(self.path, self.answer.workload)

    def verify(self, candidate: StepContender) -> Verification:
        return self.verifier.verify(LocalChild(candidate))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["sgd", "adagrad", "adamw"])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("steps") / request.param, request.param)


@pytest.fixture(scope="module")
def by_rows(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("steps") / "rows", "adagrad")


def test_a_step_with_every_pass_is_accepted_and_everything_is_told(prepared: Prepared) -> None:
    found = prepared.verify(prepared.candidate())
    assert found.passed, found.reason
    assert [row.output.partition(" of ")[0] for row in found.outputs][:3] == ["loss", "gradient", "update"]
    assert all(row.passed and row.error <= row.allowed for row in found.outputs)
    kinds = {probe.kind for probe in found.probes}
    assert {"edge", "convergence", "repeat", "negative_control"} <= kinds
    assert {p.name for p in found.probes if p.kind == "negative_control"} == {
        "no update at all", "zero gradients", "another batch's gradients",
    }  # fmt: skip
    assert {"all-equal ids", "duplicate ids"} <= {p.name for p in found.probes if p.kind == "edge"}


def test_the_training_run_falls_and_the_curves_are_told(prepared: Prepared) -> None:
    told = prepared.verify(prepared.candidate()).convergence
    assert told is not None and told.passed
    assert told.steps == len(told.losses) == len(told.baseline_losses) == 48
    first, last = np.mean(told.baseline_losses[:8]), np.mean(told.baseline_losses[-8:])  # type: ignore[arg-type]
    assert last < 0.95 * first, "the same few batches again and again can be learnt"
    assert 0 <= told.deviation <= told.allowed < 0.01


# ---- planted faults ------------------------------------------------------------------------------------------------


def no_update(one: StepContender) -> None:
    one.step._update = lambda: None
    for update in one.step.updates.values():
        update.lr = 0.0


def another_learning_rate(one: StepContender) -> None:
    for group in one.step.optimizer.param_groups:  # type: ignore[union-attr]
        group["lr"] *= 1.001


def one_table_is_left_out(one: StepContender) -> None:
    one.step.updates["model.users.weight"].lr = 0.0


def a_row_counts_once_for_each_time_it_occurs(one: StepContender) -> None:
    """Adagrad's square of a sum is not the sum of squares."""

    class Wrong(RowUpdate):
        @torch.no_grad()
        def __call__(self, ids: torch.Tensor, gradient: torch.Tensor) -> None:
            assert self.sums is not None
            self.sums.index_add_(0, ids, gradient * gradient)
            scale = self.sums.index_select(0, ids).sqrt().add(1e-10)
            self.weight.index_add_(0, ids, gradient / scale, alpha=-self.lr)

    one.step.updates["model.items.weight"].__class__ = Wrong


def the_padding_row_is_trained(one: StepContender) -> None:
    assert one.step.rows is not None
    one.step.rows.paddings = [-1] * len(one.step.rows.paddings)


def the_batch_before_is_used(one: StepContender) -> None:
    forward, last = one.step._forward, []

    def stale(*tensors: torch.Tensor) -> Any:
        last.append(tensors)
        return forward(*last[-2 if len(last) > 1 else -1][:4], *tensors[4:])

    one.step._forward = stale


def gradients_pile_up(one: StepContender) -> None:
    one.step.optimizer.zero_grad = lambda: None  # type: ignore[union-attr, method-assign, misc]


def lower_precision(one: StepContender) -> None:
    forward = one.step._forward

    def wrong(*tensors: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return forward(*tensors)

    one.step._forward = wrong


def the_loss_is_made_up(one: StepContender) -> None:
    call = one.call
    one.call = lambda native: call(native) * 1.01  # type: ignore[method-assign]


def a_reset_forgets_the_optimizer(one: StepContender) -> None:
    one.step.forget = lambda: None  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[StepContender], None]] = {
    one.__name__: one
    for one in (
        no_update, another_learning_rate, one_table_is_left_out, a_row_counts_once_for_each_time_it_occurs,
        the_padding_row_is_trained, the_batch_before_is_used, gradients_pile_up, lower_precision, the_loss_is_made_up,
        a_reset_forgets_the_optimizer,
    )
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(by_rows: Prepared, fault: str) -> None:
    candidate = by_rows.candidate()
    FAULTS[fault](candidate)
    found = by_rows.verify(candidate)
    assert not found.passed and found.reason


def test_a_table_that_is_not_updated_is_named(by_rows: Prepared) -> None:
    candidate = by_rows.candidate()
    one_table_is_left_out(candidate)
    reason = by_rows.verify(candidate).reason or ""
    assert reason.startswith("update of users.weight (worst of 4): error ")


def test_a_candidate_with_other_parameters_is_told_by_form(by_rows: Prepared) -> None:
    candidate = by_rows.candidate()
    candidate.step.parameters.pop("model.head.bias")
    found = by_rows.verify(candidate)
    assert not found.passed and found.reason == "it gives 6 gradients where the original gives 8"


def test_a_step_whose_lr_makes_no_difference_cannot_be_judged(tmp_path: Path) -> None:
    """Of updates below what float32 holds, everything and nothing is right."""
    answer = captured(tmp_path)
    workload = answer.workload.model_dump(by_alias=True)
    broken = Workload.model_validate(workload)
    rng = np.random.default_rng(3)
    reference = StepReference(answer.files["captured.step"], broken)
    base = contender(answer.files["captured.step"], broken)
    for one in (reference, base):
        one.step.optimizer.param_groups[0]["lr"] = 0.0  # type: ignore[union-attr]
    verifier = TrainingVerifier(broken, Policy(), rng, LocalChild(reference), lambda: draw(broken, {}, rng))  # type: ignore[arg-type]
    with pytest.raises(FuseworksError) as caught:
        verifier.prepare(LocalChild(base))  # type: ignore[arg-type]
    assert caught.value.id == "verifying:user:cannot-judge" and "no update at all" in caught.value.message


# ---- after timing --------------------------------------------------------------------------------------------------


def burst(prepared: Prepared, one: StepContender, count: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    sets = [draw(prepared.answer.workload, {}, rng) for _ in range(count)]
    child = LocalChild(one)
    child.call("benchmarking.stage", [a for s in sets for a in s], timeout_s=1.0, calls=count)
    child.call("benchmarking.go", timeout_s=1.0)
    return child.call("benchmarking.outputs", timeout_s=1.0, indices=[count - 1]).arrays


def test_what_was_timed_agrees_with_the_original(prepared: Prepared) -> None:
    expected = burst(prepared, contender(prepared.answer.files["captured.step"], prepared.answer.workload))
    assert prepared.verifier.agreement("float32")(burst(prepared, prepared.candidate()), expected) is None


@pytest.mark.parametrize("fault", ["no_update", "one_table_is_left_out", "the_batch_before_is_used"])
def test_a_fault_that_sets_in_while_it_is_timed_is_caught(by_rows: Prepared, fault: str) -> None:
    expected = burst(by_rows, contender(by_rows.answer.files["captured.step"], by_rows.answer.workload))
    candidate = by_rows.candidate()
    FAULTS[fault](candidate)
    assert by_rows.verifier.agreement("float32")(burst(by_rows, candidate), expected) is not None
