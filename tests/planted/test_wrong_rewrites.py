"""Rewrites that are wrong in one way: each is refused with a reason that names it, and its healthy twin passes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from optimizer.compiling.guarded import Guarded
from tests.optimizer.verifying.local import LocalChild
from tests.planted import originals
from tests.planted.originals import heads
from tests.planted.support import Function, contender, said, verifier_of, verify

MIN = torch.finfo(torch.float32).min


def tower(x: Tensor, *, epsilon: float = 1e-6, gelu: str = "none", one_pass: bool = False, root: bool = True) -> Tensor:
    m: Any = originals.TOWER.module
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean if one_pass else (x - mean).square().mean(-1, keepdim=True)
    scale = torch.rsqrt(variance + epsilon) if root else 1 / (torch.sqrt(variance) + epsilon)
    normed = (x - mean) * scale * m.norm.weight + m.norm.bias
    return m.head(F.gelu(m.hidden(normed), approximate=gelu))  # type: ignore[no-any-return]


def tower_in(dtype: torch.dtype) -> Function:
    def lowered(x: Tensor) -> Tensor:
        m: Any = originals.TOWER.module
        hidden = F.linear(m.norm(x).to(dtype), m.hidden.weight.to(dtype)).float() + m.hidden.bias
        return m.head(F.gelu(hidden))  # type: ignore[no-any-return]

    return lowered


def tower_accumulating_in_half(x: Tensor) -> Tensor:
    m: Any = originals.TOWER.module
    hidden = F.gelu(m.hidden(m.norm(x)))
    total = torch.zeros(len(x), 3, dtype=torch.float16)
    for place in range(32):
        total = total + (hidden[:, place, None] * m.head.weight[:, place]).half()
    return total.float() + m.head.bias  # type: ignore[no-any-return]


def tower_with_a_frozen_dropout(x: Tensor) -> Tensor:
    m: Any = originals.TOWER.module
    kept = torch.rand(32, generator=torch.Generator().manual_seed(4)) > 0.1
    return m.head(F.gelu(m.hidden(m.norm(x))) * kept / 0.9)  # type: ignore[no-any-return]


def tower_of_one_batch(x: Tensor) -> Tensor:
    padded = torch.cat([x, x.new_zeros(64, 16)])[:24]
    return originals.TOWER.module(padded)[: len(x)]  # type: ignore[no-any-return]


def attend(
    x: Tensor,
    mask: Tensor,
    *,
    masked: bool = True,
    empty: str = "all keys",
    scale: float = 0.5,
    dim: int = -1,
    diagonal: int = 1,
    longest: int = 99,
) -> Tensor:
    """`diagonal`: the first one above the main that causal attention does not see."""
    m: Any = originals.ATTENTION.module
    q, k, v = heads(m.q(x)), heads(m.k(x)), heads(m.v(x))
    time = x.shape[1]
    hidden = torch.ones(time, time, dtype=torch.bool).triu(diagonal) | (torch.arange(time) >= longest)
    if masked:
        hidden = hidden | ~mask[:, None, None, :]
    weights = torch.softmax((q @ k.transpose(-1, -2) * scale).masked_fill(hidden, MIN), dim)
    if empty != "all keys" and masked:
        nothing = hidden.all(-1, keepdim=True).expand_as(weights)
        other = torch.zeros_like(weights) if empty == "zero" else torch.softmax(q @ k.transpose(-1, -2) * scale, -1)
        weights = torch.where(nothing, other, weights)
    return (weights @ v).transpose(1, 2).flatten(2)


def fused_attention(x: Tensor, mask: Tensor) -> Tensor:
    m: Any = originals.ATTENTION.module
    time = x.shape[1]
    seen = mask[:, None, None, :] & torch.ones(time, time, dtype=torch.bool).tril()
    bias = torch.zeros(seen.shape).masked_fill(~seen, MIN)
    mixed = F.scaled_dot_product_attention(heads(m.q(x)), heads(m.k(x)), heads(m.v(x)), bias)
    return mixed.transpose(1, 2).flatten(2)


def bag(
    ids: Tensor, length: Tensor, *, how: str = "sum", empty: str = "zero", last: int = 299, beyond: int = 0
) -> Tensor:
    m: Any = originals.BAGS.module
    kept = torch.arange(8)[None, :] < length[:, None] + beyond
    if how == "each id once":
        earlier = (ids[:, :, None] == ids[:, None, :]).tril(-1).any(-1)
        kept = kept & ~earlier
    total = (m.table.weight[ids.clamp(max=last)] * kept[..., None]).sum(1)
    if how == "mean":
        total = total / length.clamp(min=1)[:, None]
    if empty == "NaN":
        total = total * (length / length)[:, None]
    if empty == "the last row":
        total = torch.where((length > 0)[:, None], total, m.table.weight[-1])
    if empty == "the row before":
        total = torch.where((length > 0)[:, None], total, total.roll(1, 0))
    return m.head(total)  # type: ignore[no-any-return]


def segments(rows: Tensor, segment: Tensor, *, wrong: str = "") -> Tensor:
    order = segment.argsort(stable=True)
    rows, segment = rows[order], segment[order]
    if wrong == "one segment" and bool((segment == segment[0]).all()):
        rows = rows[:-1]
        segment = segment[:-1]
    if wrong == "the last one wins":
        return torch.zeros(6, 5).index_copy(0, segment, rows)
    if wrong == "empty segments repeat":
        total = torch.zeros(6, 5).index_add(0, segment, rows)
        empty = torch.bincount(segment, minlength=6) == 0
        return torch.where(empty[:, None], total.roll(1, 0), total)
    if wrong == "a mean":
        return torch.zeros(6, 5).index_reduce(0, segment, rows, "mean", include_self=False)
    return F.one_hot(segment, 6).float().T @ rows


def ranking(places: list[int]) -> Guarded:
    """Right for users that repeat over the batch, and guarded by a look at the inputs of these places."""
    module, workload = originals.RANKING.module, originals.RANKING.workload
    usual = contender(lambda user, item, ids: module(user[:1], item, ids[:1]), workload)
    return Guarded(usual, contender(module, workload), places)


class Fault(NamedTuple):
    """`reason`: what some reason against it must hold."""

    name: str
    original: str
    wrong: Function
    reason: str


def of(function: Function, **options: Any) -> Function:
    return lambda *inputs: function(*inputs, **options)


FAULTS = [
    Fault("wrong epsilon", "TOWER", of(tower, epsilon=1e-5), "small values: output 0: error"),
    Fault("epsilon outside of the root", "TOWER", of(tower, epsilon=1e-3, root=False), "output 0: error"),
    Fault("tanh for an exact gelu", "TOWER", of(tower, gelu="tanh"), "output 0: error"),
    Fault("bfloat16 unasked", "TOWER", tower_in(torch.bfloat16), "is what bfloat16 arithmetic makes"),
    Fault("float16 unasked", "TOWER", tower_in(torch.float16), "output 0: error"),
    Fault("sums in float16", "TOWER", tower_accumulating_in_half, "output 0: error"),
    Fault("answers of four digits", "TOWER", lambda x: originals.TOWER.module(x).round(decimals=4), "output 0: error"),
    Fault("a dropout that stayed", "TOWER", tower_with_a_frozen_dropout, "output 0: error"),
    Fault("batch baked in", "TOWER", tower_of_one_batch, "batch=64: output 0 has shape [24, 3]"),
    Fault("the mask dropped", "ATTENTION", of(attend, masked=False), "output 0: error"),
    Fault("zero where no key is left", "ATTENTION", of(attend, empty="zero"), "masked rows: output 0: error"),
    Fault("unmasked where no key is left", "ATTENTION", of(attend, empty="scores"), "masked rows: output 0: error"),
    Fault("scaled by 1/d", "ATTENTION", of(attend, scale=0.25), "output 0: error"),
    Fault("softmax over the queries", "ATTENTION", of(attend, dim=-2), "output 0: error"),
    Fault("causal, and one ahead", "ATTENTION", of(attend, diagonal=2), "output 0: error"),
    Fault("causal, without itself", "ATTENTION", of(attend, diagonal=0), "output 0: error"),
    Fault("sequence length baked in", "ATTENTION", of(attend, longest=10), "time="),
    Fault("the mean of a bag", "BAGS", of(bag, how="mean"), "output 0: error"),
    Fault("each id of a bag once", "BAGS", of(bag, how="each id once"), "output 0: error"),
    Fault("NaN for an empty bag", "BAGS", of(bag, empty="NaN"), "is NaN at"),
    Fault("the last row for an empty bag", "BAGS", of(bag, empty="the last row"), "output 0: error"),
    Fault("the row before for an empty bag", "BAGS", of(bag, empty="the row before"), "output 0: error"),
    Fault("the table's last row is missed", "BAGS", of(bag, last=298), "largest ids: output 0: error"),
    Fault("a bag's end is one off", "BAGS", of(bag, beyond=1), "output 0: error"),
    Fault("all rows in one segment", "SEGMENTS", of(segments, wrong="one segment"), "ids: output 0: error"),
    Fault("the last row of a segment wins", "SEGMENTS", of(segments, wrong="the last one wins"), "output 0: error"),
    Fault("empty segments repeat", "SEGMENTS", of(segments, wrong="empty segments repeat"), "ids: output 0: error"),
    Fault("the mean of a segment", "SEGMENTS", of(segments, wrong="a mean"), "output 0: error"),
    Fault("ids cut to 32 bits", "HASHED", lambda ids: originals.HASHED.module(ids.int()), "output 0: error"),
    Fault("NaN swallowed", "WEIGHTED", lambda x, m: originals.WEIGHTED.module(x, m).nan_to_num(), "original is NaN"),
]  # fmt: skip
TWINS: dict[str, list[Function]] = {
    "TOWER": [tower, of(tower, one_pass=True)],  # as ONNX Runtime's own norm has it
    "ATTENTION": [attend, fused_attention],
    "BAGS": [bag],
    "SEGMENTS": [segments],
    "HASHED": [lambda ids: originals.HASHED.module(torch.remainder(ids, 97) + 97 * 5)],
    "WEIGHTED": [lambda x, m: (torch.softmax(torch.where(m, x, -math.inf), -1) * x).sum(-1)],
}


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_wrong_rewrite_is_refused_with_its_reason(fault: Fault) -> None:
    found = verify(fault.original, fault.wrong)
    assert not found.passed
    assert any(fault.reason in reason for reason in said(found)), said(found)
    assert all(probe.passed for probe in found.probes if probe.kind == "negative_control")


@pytest.mark.parametrize("name", TWINS)
def test_a_right_rewrite_in_another_order_of_additions_passes(name: str) -> None:
    for twin in TWINS[name]:
        found = verify(name, twin)
        assert found.passed, said(found)


def test_every_original_passes_as_its_own_candidate() -> None:
    for name in {*TWINS, "RANKING"}:
        found = verify(name, getattr(originals, name).module)
        assert found.passed, (name, said(found))


def test_a_promise_is_taken_at_its_word_by_none() -> None:
    verifier = verifier_of("RANKING")
    whole = verifier.verify(LocalChild(ranking([0, 2])))  # type: ignore[arg-type]
    assert whole.passed, said(whole)
    for places, alone in (([], "another last row"), ([0], "ids alone"), ([2], "user alone")):
        found = verifier.verify(LocalChild(ranking(places)))  # type: ignore[arg-type]
        assert any(reason.startswith(f"promise broken: {alone}: output 0: error") for reason in said(found)), places


def test_there_are_faults_enough() -> None:
    assert len(FAULTS) >= 24 and {fault.original for fault in FAULTS} == set(TWINS)
