"""Padding in a trace: read from what the operations that pad were given, and costed by what computes on it."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.ranking import ranked
from optimizer.result import Finding
from tests.optimizer.diagnosing.traces.building import A100, Building

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"


def padding(name: str, **args: Any) -> RankTrace:
    job = Building(device=A100)
    job.op(name, 0, 5, **args)
    job.kernel("k", 100, 10)
    return job.read()


def sequences(*lengths: int) -> dict[str, Any]:
    return {"Input Dims": [[[length, 8] for length in lengths], [], []]}


def jagged(values: int, sequences: int, longest: Any) -> dict[str, Any]:
    return {
        "Input Dims": [[values, 8], [[sequences + 1]], [], []],
        "Concrete Inputs": ["", "", longest, "0."],
    }


def test_sequences_are_filled_by_their_lengths_out_of_the_longest() -> None:
    (row,) = padding("aten::pad_sequence", **sequences(10, 4, 1)).padding_rows
    # three sequences of ten positions, of which fifteen hold something
    assert (row.calls, row.positions, row.filled) == (1, 30, 15)


def test_jagged_values_are_filled_by_their_number_out_of_the_longest_that_was_given() -> None:
    (row,) = padding("fbgemm::jagged_to_padded_dense", **jagged(24, 4, "[20]")).padding_rows
    assert (row.positions, row.filled) == (80, 24)
    (cut,) = padding("aten::_jagged_to_padded_dense_forward", **jagged(240, 4, "[20]")).padding_rows
    assert (cut.positions, cut.filled) == (80, 80), "what is longer is cut off"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::pad_sequence", {}),
        ("aten::pad_sequence", {"Input Dims": []}),
        ("aten::pad_sequence", {"Input Dims": [[[8, 3]], [], []]}),  # one sequence is not padded
        ("aten::pad_sequence", {"Input Dims": [[[8, 3], []], [], []]}),
        ("aten::pad_sequence", {"Input Dims": [[["8", 3], [9, 3]], [], []]}),
        ("aten::pad_sequence", {"Input Dims": [[[0, 3], [0, 3]], [], []]}),
        ("aten::pad_sequence", {"Input Dims": [[[-4, 3], [9, 3]], [], []]}),
        ("fbgemm::jagged_to_padded_dense", jagged(24, 4, "[20, 3]")),
        ("fbgemm::jagged_to_padded_dense", jagged(24, 0, "[20]")),
        ("fbgemm::jagged_to_padded_dense", jagged(24, 4, None)),
        ("fbgemm::jagged_to_padded_dense", jagged(24, 4, "[0]")),
        ("fbgemm::jagged_to_padded_dense", {"Input Dims": [[24, 8]]}),
    ],
)
def test_what_tells_no_lengths_tells_no_padding(name: str, args: dict[str, Any]) -> None:
    assert padding(name, **args).padding_rows == []


def test_a_weight_of_the_size_of_all_positions_is_not_padded() -> None:
    job = Building()
    job.op("aten::pad_sequence", 10, 5, **sequences(10, 3, 3, 3))
    job.op("aten::mm", 20, 5, **{"Input Dims": [[16, 40], [40, 8]]})
    job.op("aten::addmm", 30, 5, **{"Input Dims": [[8], [40, 16], [16, 8]]})
    job.kernel("k", 100, 10)
    assert job.read().on_padding == {"aten::addmm": 1}


@pytest.mark.parametrize(
    ("shape", "counted"),
    [
        ([4, 10, 8], True),
        ([10, 4, 8], True),
        ([40, 8], True),
        ([4, 2, 10, 8], True),  # heads between batch and positions
        ([4, 10], False),  # as many features as positions, maybe
        ([40], False),
        ([8, 4, 10], False),
        ([], False),
        (["4", 10, 8], False),
        (7, False),
    ],
)
def test_an_operation_on_a_padded_size_is_counted(shape: Any, counted: bool) -> None:
    job = Building()
    job.op("aten::mul", 0, 5, **{"Input Dims": [[4, 10, 8]]})
    job.op("aten::pad_sequence", 10, 5, **sequences(10, 3, 3, 3))
    job.op("aten::mul", 20, 5, **{"Input Dims": [shape, []]})
    job.kernel("k", 100, 10)
    assert job.read().on_padding == ({"aten::mul": 1} if counted else {}), "not what came before it"


def padded_training(lengths: tuple[int, ...], *, on_padding: bool = True) -> list[Finding]:
    """Half of the time in products on what was padded, half of it in others."""
    job = Building(device=A100)
    job.op("aten::pad_sequence", 0, 5, **sequences(*lengths))
    size = len(lengths) * max(lengths) if on_padding else 56
    for at in range(10):
        start = 1_000 + 200 * at
        job.op("aten::mm", start - 21, 4, **{"Input Dims": [[size, 8], [8, 8]]})
        job.kernel(GEMM, start, 100)
        job.op("aten::addmm", start + 79, 4, **{"Input Dims": [[8], [104, 8], [8, 8]]})
        job.kernel(GEMM, start + 100, 100)
    return [finding for finding in ranked([job.read()]).findings if finding.rule == "padding_waste"]


def test_the_cost_is_the_empty_share_of_what_computes_on_padding() -> None:
    # three sequences, a half filled; half of the products work on them: a quarter of all
    (finding,) = padded_training((8, 3, 1))
    assert finding.cost_share == pytest.approx(0.25, abs=0.001)
    assert finding.evidence["filled_share"] == 0.5
    assert finding.evidence["on_padding_share_of_compute"] == pytest.approx(0.5)
    assert finding.evidence["operations_on_padding"] == {"aten::mm": 10}
    assert finding.gain is not None
    # 30 % to all of a quarter of the time
    assert finding.gain.low == pytest.approx(1 / (1 - 0.3 * 0.25), abs=1e-3)
    assert finding.gain.high == pytest.approx(1 / 0.75, abs=1e-3)


@pytest.mark.parametrize(("lengths", "found"), [((10, 5, 5), True), ((10, 6, 5), False), ((10, 10, 10), False)])
def test_seventy_per_cent_filled_is_enough(lengths: tuple[int, ...], found: bool) -> None:
    assert bool(padded_training(lengths)) == found


def test_padding_on_which_nothing_computes_is_no_finding() -> None:
    assert padded_training((8, 3, 1), on_padding=False) == []
