"""How one case is judged: the share of the allowed error, what lies around buffers, the operation through torch."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kernels import KERNELS
from kernels.checking import Case, Outcome, cases, check_operation, error_share, guarded, intact, padded

NORM, TOPK, LOOKUP = (KERNELS.get(name) for name in ("rms_norm", "topk_gating", "embedding_lookup"))
GOOD = Outcome(error_share=0.5, canaries_intact=True, inputs_unchanged=True, seconds=0.0)


def share(got: list[float], want: list[float]) -> float:
    """Of RMSNorm in float32: 2e-6 + 2e-6 × |reference| are allowed."""
    return error_share(NORM, torch.tensor(got), torch.tensor(want, dtype=torch.float64), torch.float32)


def test_the_worst_element_counts_by_what_its_own_size_allows() -> None:
    assert share([1.0, 2.0], [1.0, 2.0]) == 0.0
    off_by_two_millionths = share([2.0, 0.0], [2.0, 2e-6])
    assert off_by_two_millionths == pytest.approx(1.0, rel=1e-3)
    assert share([2.0, 1.0 + 2e-6], [2.0, 1.0]) == pytest.approx(0.5, rel=0.05)  # of 4e-6


def test_infinities_and_nan_must_be_where_the_reference_has_them() -> None:
    nan, infinity = float("nan"), float("inf")
    assert share([nan, infinity], [nan, infinity]) == 0.0
    assert share([nan], [1.0]) == infinity
    assert share([infinity], [-infinity]) == infinity
    assert share([1.0], [nan]) == infinity


def test_what_only_copies_may_not_differ_at_all() -> None:
    exact = torch.tensor([1.0], dtype=torch.float64)
    assert error_share(LOOKUP, torch.tensor([1.0]), exact, torch.float32) == 0.0
    assert error_share(LOOKUP, torch.tensor([1.0 + 2**-23]), exact, torch.float32) == float("inf")


def test_integers_are_equal_or_wrong() -> None:
    want = torch.tensor([3, 4])
    assert error_share(TOPK, torch.tensor([3, 4]), want, torch.float32) == 0.0
    assert error_share(TOPK, torch.tensor([3, 5]), want, torch.float32) == float("inf")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"error_share": 1.5}, "1.5 times as far from the reference as is allowed"),
        ({"error_share": float("inf")}, "infinitely as far from the reference"),
        ({"canaries_intact": False}, "past the end of a buffer"),
        ({"inputs_unchanged": False}, "changed its inputs"),
    ],
)
def test_a_fault_is_told_in_words(changed: dict[str, object], text: str) -> None:
    assert GOOD.fault is None
    assert text in str(dataclasses.replace(GOOD, **changed).fault)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.bool])
def test_a_write_beyond_either_end_of_a_buffer_is_seen(dtype: torch.dtype) -> None:
    inner, buffer = padded(torch.empty(5, dtype=dtype))
    inner.zero_()
    assert intact(buffer)
    for place in (63, 64 + 5):
        _, other = padded(torch.empty(5, dtype=dtype))
        other[place] = 0
        assert not intact(other)


def test_an_input_lies_between_canaries_and_keeps_its_values() -> None:
    given = torch.arange(3.0)
    inner, buffer = guarded(given)
    assert torch.equal(inner, given) and buffer is not None and intact(buffer)  # type: ignore[arg-type]
    assert guarded("mean") == ("mean", None)
    transposed = torch.ones(2, 3).T
    assert guarded(transposed)[0] is transposed


def test_every_sample_and_edge_is_a_case_in_each_configuration() -> None:
    found = list(cases(NORM))
    assert {case.dtype for case in found} == set(NORM.tolerances)
    edges = {case.sample.name for case in found if case.edge}
    assert edges == {sample.name for sample in NORM.edges(torch.float32)}
    assert len({case.name for case in found}) == len(found)
    assert isinstance(found[0], Case)


@pytest.mark.parametrize("name", ["rms_norm", "rowwise_adagrad", "topk_gating"])
def test_the_operation_is_right_as_graphs_call_it(name: str) -> None:
    kernel = KERNELS.get(name)
    for dtype in kernel.tolerances:
        assert check_operation(kernel, kernel.samples(dtype)[0], dtype, "cpu") is None


def test_an_operation_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = type(NORM).reference
    monkeypatch.setattr(
        type(NORM), "reference", lambda self, x, *rest: reference(self, x, *rest) + (x.dtype.itemsize == 8)
    )
    fault = check_operation(NORM, NORM.samples(torch.float32)[0], torch.float32, "cpu")
    assert fault is not None and "as far from the reference" in fault
