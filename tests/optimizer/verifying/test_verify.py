from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.errors import FuseworksError
from optimizer.result import Verification
from optimizer.sandbox import ChildFailed, Reply
from optimizer.spec import Policy, Workload
from optimizer.verifying.reference import TorchReference
from optimizer.verifying.verify import Verifier
from tests.optimizer.verifying.local import LocalChild, TorchContender
from tests.optimizer.verifying.models import WORKLOAD, Delayed, Ranker, Reassociated, SharedBuffer


def export(model: torch.nn.Module, workload: Workload, path: Any) -> TorchReference:
    from optimizer.inputs import draw

    inputs = tuple(torch.from_numpy(a) for a in draw(workload, workload.sizes(), np.random.default_rng(0)))
    batch = torch.export.Dim("batch", min=1, max=96)
    dynamic = tuple({0: batch} for _ in inputs) if workload.dims else None
    torch.export.save(torch.export.export(model, inputs, dynamic_shapes=dynamic), path)
    return TorchReference(path)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> TorchReference:
    return export(Ranker().eval(), WORKLOAD, tmp_path_factory.mktemp("reference") / "captured.pt2")


def prepared(reference: Any, baseline: Any, workload: Workload = WORKLOAD, seed: int = 0) -> Verifier:
    verifier = Verifier(workload, Policy(), np.random.default_rng(seed), LocalChild(reference))
    verifier.prepare(LocalChild(TorchContender(baseline)))
    return verifier


@pytest.fixture(scope="module")
def verifier(reference: TorchReference) -> Verifier:
    return prepared(reference, Ranker().eval())


def changed(**attributes: Any) -> Ranker:
    model = Ranker().eval()
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def wrong_epsilon() -> Ranker:
    model = Ranker().eval()
    model.norm.eps = 5e-6
    return model


def stateful(answer: Callable[[list[Any], tuple[torch.Tensor, ...]], Any]) -> Callable[..., Any]:
    """`answer(earlier answers, this call's true answer)`."""
    model, earlier = Ranker().eval(), []

    def call(*inputs: torch.Tensor) -> Any:
        true = model(*inputs)
        given = answer(earlier, true)
        earlier.append(true)
        return given

    return call


def like(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.resize(old.numpy(), tuple(new.shape)))


def bfloat16_inside(*inputs: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return tuple(o.float() for o in changed(masked_value=-1e9)(*inputs))


def bfloat16_at_the_door(dense: torch.Tensor, *rest: torch.Tensor) -> Any:
    return changed(masked_value=-1e9)(dense.bfloat16().float(), *rest)


def scribbling(dense: torch.Tensor, *rest: torch.Tensor) -> Any:
    answer = Ranker().eval()(dense, *rest)
    dense.mul_(2.0)
    return answer


def batch_baked_in(*inputs: torch.Tensor) -> Any:
    full = [torch.cat([i, i.new_zeros(96 - len(i), *i.shape[1:])])[:32] for i in inputs]
    return Ranker().eval()(*full)


class LazyContender(TorchContender):
    """Does the work when the answer is read, after the timer has stopped."""

    def call(self, native: list[torch.Tensor]) -> Any:
        return native

    def outputs(self, native: Any) -> list[np.ndarray]:
        with torch.no_grad():
            return super().outputs(self.function(*native))


def masked_nan(*inputs: torch.Tensor) -> Any:
    return changed(masked_value=float("-inf"))(*inputs)


def noisy(*inputs: torch.Tensor) -> Any:
    return tuple(o + 1e-3 * torch.randn_like(o) for o in Ranker().eval()(*inputs))


FIRST_MODEL = Ranker().eval()
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "zeros": (lambda: lambda d, i, m: (torch.zeros(len(d), 1), torch.zeros(len(d), 1)), "it answers zeros"),
    "cached output": (
        lambda: stateful(lambda old, new: tuple(like(o, n) for o, n in zip((old or [new])[0], new, strict=True))),
        "it gives the first call's answer again",
    ),
    "output of the previous call": (
        lambda: stateful(lambda old, new: tuple(like(o, n) for o, n in zip((old or [new])[-1], new, strict=True))),
        "it gives the answer of the call before",
    ),
    "input handed back": (lambda: lambda d, i, m: (d.reshape(-1)[: len(d), None],) * 2, "it hands an input back"),
    "wrong epsilon": (wrong_epsilon, "small values: output 0: error"),
    "dropped mask": (lambda: changed(use_mask=False), "output 0: error"),
    "batch baked in": (lambda: batch_baked_in, "has shape [32, 1] where the original answers [1, 1]"),
    "precision lowered unasked": (lambda: bfloat16_inside, "an error of this size is what bfloat16 arithmetic makes"),
    "work deferred past the timer": (lambda: Delayed(FIRST_MODEL), "it answers zeros"),
    "outputs rewritten by the next call": (lambda: SharedBuffer(FIRST_MODEL), "it changed once later calls had run"),
    "input mutated": (lambda: scribbling, "it changes its input dense in place; the original does not"),
    "off-by-one gather": (lambda: changed(shift=1), "output 0: error"),
    "NaN at masked rows": (lambda: masked_nan, "is NaN at"),
    "swapped outputs": (lambda: lambda *x: FIRST_MODEL(*x)[::-1], "it holds what belongs into output 1"),
    "scaled by 1.001": (
        lambda: lambda *x: tuple(o * 1.001 for o in FIRST_MODEL(*x)),
        "it is off by the constant factor 1.001",
    ),
    "nondeterministic": (lambda: noisy, "output 0: error"),
    "one output missing": (lambda: lambda *x: FIRST_MODEL(*x)[:1], "it gives 1 outputs where the original gives 2"),
    "another dtype": (
        lambda: lambda *x: tuple(o.double() for o in FIRST_MODEL(*x)),
        "is float64 where the original answers float32",
    ),
}


def test_right_answers_pass_with_every_probe(verifier: Verifier) -> None:
    verification = verifier.verify(LocalChild(TorchContender(Ranker().eval())))
    assert verification.passed, verification.reason
    assert {p.kind for p in verification.probes} == {
        "sizes", "edge", "mutation", "held_output", "negative_control", "repeat"
    }  # fmt: skip
    assert all(row.samples >= 64 and row.error <= 1e-5 for row in verification.outputs)
    names = [p.name for p in verification.probes]
    assert {"batch=1", "batch=48", "batch=96", "zeros", "large values", "masks all zero", "all-equal ids"} <= set(names)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_or_cheating_candidate_is_caught_and_told_why(verifier: Verifier, name: str) -> None:
    make, reason = WRONG[name]
    verification = verifier.verify(LocalChild(TorchContender(make())))
    assert not verification.passed
    said = [verification.reason or "", *(f"{p.name}: {p.reason}" for p in verification.probes if not p.passed)]
    assert any(reason in text for text in said), said
    assert all(p.passed for p in verification.probes if p.kind == "negative_control")


def test_work_left_until_the_answer_is_read_is_caught(verifier: Verifier) -> None:
    verification = verifier.verify(LocalChild(LazyContender(FIRST_MODEL)))
    assert not verification.passed
    assert "work is left until after the call has returned" in str(verification.reason)


def test_only_the_edges_catch_what_random_inputs_do_not(verifier: Verifier) -> None:
    for make in (wrong_epsilon, lambda: masked_nan, lambda: batch_baked_in):
        verification = verifier.verify(LocalChild(TorchContender(make())))
        assert all(row.passed for row in verification.outputs)
        assert not verification.passed


def test_reassociated_candidates_raise_no_false_alarm_over_twenty_seeds() -> None:
    alarms = []
    for seed in range(20):
        model = Ranker(seed).eval()
        exact = TorchContender(Ranker(seed).eval().double(), torch.float64)
        verifier = prepared(exact, model, seed=seed)
        torch.manual_seed(seed)
        verification = verifier.verify(LocalChild(TorchContender(Reassociated(model, torch.randperm(8)))))
        if not verification.passed:
            alarms.append(f"seed {seed}: {verification.reason}")
    assert not alarms


def test_a_lower_precision_passes_only_under_its_own_bound(verifier: Verifier) -> None:
    candidate = LocalChild(TorchContender(bfloat16_at_the_door))
    assert not verifier.verify(candidate, "float32").passed
    allowed = verifier.verify(candidate, "bfloat16")
    assert allowed.passed, allowed.reason
    assert all(row.allowed == pytest.approx(1e-2) for row in allowed.outputs)


def test_values_that_a_lower_precision_holds_as_one_are_not_judged_in_it(verifier: Verifier) -> None:
    candidate = LocalChild(TorchContender(Ranker().eval()))
    judged = {
        precision: {probe.name: probe.judged for probe in verifier.verify(candidate, precision).probes}
        for precision in ("float32", "bfloat16")
    }
    assert judged["float32"]["nearly equal values"] and not judged["bfloat16"]["nearly equal values"]
    assert judged["bfloat16"]["large values"]


def test_max_error_is_the_bound_of_a_lower_precision(reference: TorchReference) -> None:
    workload = WORKLOAD.model_copy(update={"limits": WORKLOAD.limits.model_copy(update={"max_error": 1e-4})})
    strict = prepared(reference, Ranker().eval(), workload)
    assert not strict.verify(LocalChild(TorchContender(bfloat16_inside)), "bfloat16").passed


def test_a_bound_so_wide_that_zeros_pass_is_named_and_not_blamed_on_the_candidate(reference: TorchReference) -> None:
    workload = WORKLOAD.model_copy(update={"limits": WORKLOAD.limits.model_copy(update={"max_error": 500.0})})
    verifier = prepared(reference, Ranker().eval(), workload)
    verification = verifier.verify(LocalChild(TorchContender(Ranker().eval())), "bfloat16")
    assert not verification.passed
    assert str(verification.reason).startswith("cannot be judged: zeros would be accepted: the allowed error of 500")


class AllZero(torch.nn.Module):
    def forward(self, dense: torch.Tensor) -> torch.Tensor:
        return dense * 0.0


def test_a_model_that_answers_zeros_cannot_be_judged_and_the_run_says_so(tmp_path: Any) -> None:
    workload = Workload.model_validate({"inputs": [{"name": "dense", "dtype": "float32", "shape": [64, 3]}]})
    reference = export(AllZero(), workload, tmp_path / "zero.pt2")
    with pytest.raises(FuseworksError) as caught:
        prepared(reference, AllZero(), workload)
    assert caught.value.id == "verifying:user:cannot-judge"
    assert "zeros would be accepted" in str(caught.value)


class InPlace(torch.nn.Module):
    def forward(self, dense: torch.Tensor) -> torch.Tensor:
        return dense.mul_(0.5).sum(-1)


def test_a_model_that_changes_its_input_is_compared_by_what_it_leaves_there(tmp_path: Any) -> None:
    workload = Workload.model_validate({"inputs": [{"name": "dense", "dtype": "float32", "shape": [64, 3]}]})
    verifier = prepared(export(InPlace(), workload, tmp_path / "in_place.pt2"), InPlace(), workload)
    same = verifier.verify(LocalChild(TorchContender(InPlace())))
    assert same.passed, same.reason
    pure = verifier.verify(LocalChild(TorchContender(lambda d: (d * 0.5).sum(-1))))
    assert pure.reason == "inputs after the call: it leaves its input dense as it was; the original changes it in place"

    def twice(dense: torch.Tensor) -> torch.Tensor:
        answer = dense.mul_(0.5).sum(-1)
        dense.mul_(0.5)
        return answer

    applied_twice = verifier.verify(LocalChild(TorchContender(twice)))
    assert "it leaves other values in its input dense" in str(applied_twice.reason)


class Choice(torch.nn.Module):
    """The index of the larger of two scores; equal ones are ties."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.stack([left.sum(-1), right.sum(-1)], -1).argmax(-1)


def test_integers_must_be_equal(tmp_path: Any) -> None:
    inputs = [{"name": n, "dtype": "float32", "shape": [128, 5]} for n in ("left", "right")]
    workload = Workload.model_validate({"inputs": inputs})
    verifier = prepared(export(Choice(), workload, tmp_path / "choice.pt2"), Choice(), workload)
    reordered = verifier.verify(
        LocalChild(TorchContender(lambda a, b: torch.stack([a.flip(-1).sum(-1), b.flip(-1).sum(-1)], -1).argmax(-1)))
    )
    assert reordered.passed, reordered.reason
    assert [row.yardstick for row in reordered.outputs] == ["places"]
    wrong = verifier.verify(LocalChild(TorchContender(lambda a, b: (a[:, 0] < b[:, 0]).long())))
    assert "integers differ from the original's and are no ties" in str(wrong.reason)


def test_a_candidate_that_raises_on_ordinary_inputs_fails_as_itself(verifier: Verifier) -> None:
    def broken(*inputs: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no kernel for this shape")

    with pytest.raises(ChildFailed, match="no kernel for this shape"):
        verifier.verify(LocalChild(TorchContender(broken)))


def test_a_candidate_that_raises_at_an_edge_is_told_which(verifier: Verifier) -> None:
    def picky(dense: torch.Tensor, *rest: torch.Tensor) -> Any:
        if len(dense) == 1:
            raise RuntimeError("batch of one")
        return FIRST_MODEL(dense, *rest)

    verification = verifier.verify(LocalChild(TorchContender(picky)))
    assert verification.reason == "batch=1: it fails where the original answers: RuntimeError: batch of one"


def test_a_workload_that_the_original_cannot_answer_is_the_users_to_mend(reference: TorchReference) -> None:
    def refuses(*inputs: torch.Tensor) -> Any:
        raise IndexError("index out of range in self")

    with pytest.raises(FuseworksError) as caught:
        prepared(reference, refuses)
    assert caught.value.id == "verifying:user:original-fails"


def test_agreement_takes_rounding_and_catches_what_is_wrong(verifier: Verifier) -> None:
    compare = verifier.agreement("float32")
    inputs = [torch.from_numpy(a) for a in verifier.truths.pooled[0].arrays]
    with torch.no_grad():
        base = [o.numpy() for o in FIRST_MODEL(*inputs)]
        close = [o.numpy() for o in Reassociated(FIRST_MODEL, torch.randperm(8))(*inputs)]
    assert compare(close, base) is None
    assert "output 1 is off by" in str(compare([base[0], base[1] * 1.01], base))
    assert "shape" in str(compare([base[0][:3], base[1]], base))


class Slow(LocalChild):
    """A reference that says of itself how long it takes, and keeps what it was asked."""

    def __init__(self, contender: Any, seconds: float) -> None:
        super().__init__(contender)
        self.seconds, self.asked = seconds, []  # type: ignore[var-annotated]

    def call(self, op: str, arrays: Any = (), **options: Any) -> Any:
        reply = super().call(op, arrays, **options)
        self.asked += [np.array(array) for array in arrays]
        return Reply({**reply.fields, "seconds": [self.seconds for _ in reply.fields["seconds"]]}, reply.arrays)


GROWING = WORKLOAD.model_copy(
    update={"dims": {"batch": WORKLOAD.dims["batch"].model_copy(update={"serve": [2], "max": 96})}}
)


def test_the_same_seed_draws_the_same_whatever_the_reference_takes(reference: TorchReference) -> None:
    verifiers = []
    for seconds in (1e-3, 3.0):
        verifier = Verifier(GROWING, Policy(), np.random.default_rng(5), Slow(reference, seconds))
        verifier.prepare(LocalChild(TorchContender(Ranker().eval())))
        verifiers.append(verifier)
    fast, slow = (verifier.truths for verifier in verifiers)
    assert [q.name for q in fast.edges] == [q.name for q in slow.edges]
    for one, other in zip([*fast.pooled, *fast.edges], [*slow.pooled, *slow.edges], strict=True):
        for array, same in zip(one.arrays, other.arrays, strict=True):
            np.testing.assert_array_equal(array, same)
    cut = [q for q in slow.edges if "would take" in (q.not_judged or "")]
    assert "batch=96" in {q.name for q in cut} and all(q.items > 16 for q in cut)
    assert not any("would take" in (q.not_judged or "") for q in fast.edges)


def test_what_the_reference_has_no_time_for_is_told_and_not_asked(reference: TorchReference) -> None:
    child = Slow(reference, 3.0)
    verifier = Verifier(GROWING, Policy(), np.random.default_rng(5), child)
    verifier.prepare(LocalChild(TorchContender(Ranker().eval())))
    assert max(len(array) for array in child.asked) == 16, "eight times the served two, however slow it is"
    verification = verifier.verify(LocalChild(TorchContender(Ranker().eval())))
    assert verification.passed, verification.reason
    reasons = {probe.name: probe.reason for probe in verification.probes}
    assert reasons["batch=96"] == (
        "not judged: the float64 reference would take some 144 s there, and 5 s are given to it"
    )
    assert reasons["batch=16"] is None
    judged = {probe.name: probe.judged for probe in verification.probes}
    assert (judged["batch=96"], judged["batch=16"]) == (False, True)
    assert all(not p.judged for p in verification.probes if (p.reason or "").startswith("not judged"))


class Scores(torch.nn.Module):
    """The larger of two rows' sums, as one integer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1).argmax()[None]


def test_a_cheat_in_one_integer_passes_no_judgement(tmp_path: Any) -> None:
    workload = Workload.model_validate({"inputs": [{"name": "x", "dtype": "float32", "shape": [2, 5]}]})
    verifier = prepared(export(Scores(), workload, tmp_path / "scores.pt2"), Scores(), workload)
    compare, honest = verifier.agreement("float32"), verifier.agreement("float32")
    rng, cheat = np.random.default_rng(1), np.random.default_rng(2)
    reasons = []
    for _ in range(60):
        x = torch.from_numpy(rng.standard_normal((2, 5)).astype(np.float32))
        base = [Scores()(x).numpy()]
        reasons.append(compare([1 - base[0] if cheat.random() < 0.5 else base[0]], base))
        assert honest([x.flip(-1).sum(-1).argmax()[None].numpy()], base) is None
    assert any(reason is not None for reason in reasons[:20])


def test_a_verification_survives_the_trip_as_json(verifier: Verifier) -> None:
    def huge(*inputs: torch.Tensor) -> Any:
        return tuple(torch.full_like(o, 3e38) for o in FIRST_MODEL(*inputs))

    verification = verifier.verify(LocalChild(TorchContender(huge)))
    assert Verification.model_validate_json(verification.model_dump_json()) == verification
