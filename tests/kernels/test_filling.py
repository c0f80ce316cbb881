"""Values for arguments without memory: every integer has a rule, and no index leads past a table."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import kernels
from kernels import KERNELS, filling
from kernels.filling import NoRule, bytes_of, filled
from kernels.spec import Sample, as_tuple

kernels.load()
DTYPES = [(kernel.name, dtype) for kernel in KERNELS for dtype in kernel.tolerances]


def without_memory(sample: Sample) -> Sample:
    return Sample(sample.name, tuple(a.to("meta") if isinstance(a, Tensor) else a for a in sample.args))


@pytest.mark.parametrize(("name", "dtype"), DTYPES)
def test_the_reference_takes_what_is_filled_in(name: str, dtype: torch.dtype) -> None:
    """torch on a CPU raises where an index is past the end; on a GPU that would end the process's context."""
    kernel = KERNELS.get(name)
    sample = filled(kernel, without_memory(kernel.samples(dtype)[0]), "cpu")
    assert kernel.check(*sample.args) is None
    outputs = as_tuple(kernel.reference(*sample.args))
    assert all(torch.isfinite(out).all() for out in outputs if out.is_floating_point() and dtype != torch.float16)


@pytest.mark.parametrize("name", KERNELS.names())
def test_every_typical_argument_has_a_rule(name: str) -> None:
    kernel = KERNELS.get(name)
    for dtype in kernel.tolerances:
        names = [argument.name for argument in kernel.op._schema.arguments]
        for argument, value in zip(names, kernel.typical(dtype).args, strict=True):
            if (
                isinstance(value, Tensor)
                and not value.is_floating_point()
                and value.dtype not in (torch.bool, torch.int8)
            ):
                assert argument in filling.INTEGERS


def test_an_integer_that_nobody_knows_is_refused() -> None:
    class Odd:
        class op:
            class _schema:
                arguments = (type("A", (), {"name": "odd"}),)

    with pytest.raises(NoRule, match="odd"):
        filled(Odd, Sample("", (torch.empty(3, dtype=torch.int64, device="meta"),)), "cpu")  # type: ignore[arg-type]


def integer(kernel: str, dtype: torch.dtype, argument: int, sample: Sample | None = None) -> Any:
    found = KERNELS.get(kernel)
    return filled(found, sample or without_memory(found.samples(dtype)[0]), "cpu").args[argument]


def test_sequences_are_equally_long_and_end_where_the_values_end() -> None:
    values, offsets = torch.empty(12, 2, device="meta"), torch.empty(5, dtype=torch.int64, device="meta")
    found = integer("jagged_softmax", torch.float32, 1, Sample("", (values, offsets)))
    assert found.tolist() == [0, 3, 6, 9, 12]


def test_bags_begin_one_after_another() -> None:
    table, ids = torch.empty(7, 2, device="meta"), torch.empty(10, dtype=torch.int64, device="meta")
    offsets = torch.empty(5, dtype=torch.int64, device="meta")
    sample = Sample("", (table, ids, offsets, False))
    assert integer("embedding_bag", torch.float32, 2, sample).tolist() == [0, 2, 4, 6, 8]
    assert integer("embedding_bag", torch.float32, 1, sample).max() < 7


def test_bytes_are_those_of_all_tensors() -> None:
    assert bytes_of(Sample("", (torch.empty(3, 2, device="meta"), torch.empty(4, dtype=torch.int8), 7, None))) == 28
