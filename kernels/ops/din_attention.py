"""DIN's target attention in one pass: features, both hidden layers, the masked softmax and the weighted sum.

    f[l]   = concat(q, k[l], q - k[l], q * k[l])
    s[l]   = (relu(relu(f[l] @ w1.T + b1) @ w2.T + b2) @ w3.T + b3) / scale,  `hidden` where mask[l] is false
    out    = sum over l of softmax(s)[l] * k[l]

Nothing of the size [batch, steps, 4 * width] is in memory. Products are accumulated in float32; features and hidden
values are rounded to the dtype before a product. The weights stay on the multiprocessor where they fit, else they are
walked in slices of BLOCK_1 hidden values and BLOCK_K features, out of the cache again for each tile of steps.

Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", 2018 (arXiv 1706.06978).
Not for: other activations than ReLU, more or fewer hidden layers, keys wider than 128 or layers wider than 256.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products, rows
from kernels.inputs import coins, meta, normal
from kernels.patterns import (
    Found,
    Made,
    Pattern,
    anything,
    aten,
    call,
    either,
    is_dim,
    mul,
    number,
    shared,
    sub,
    tensor,
)
from kernels.spec import (
    Configuration,
    Cost,
    Kernel,
    Launch,
    Sample,
    configuration,
    power_of_two,
    register,
    same_size,
)
from kernels.spellings import einsum, repeated, softmax

tl: Any = None  # triton.language: `jit` sets it

WIDEST, WIDEST_LAYER = 128, 256


def _kernel(  # type: ignore[no-untyped-def]
    query_ptr,
    keys_ptr,
    mask_ptr,
    w1_ptr,
    b1_ptr,
    w2_ptr,
    b2_ptr,
    w3_ptr,
    b3_ptr,
    out_ptr,
    length,
    width,
    size1,
    size2,
    scale,
    hidden,
    WIDTH: tl.constexpr,
    SIZE_1: tl.constexpr,
    SIZE_2: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK_1: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    sample = tl.program_id(0).to(tl.int64)  # int64: an offset may pass 2**31
    scale, hidden = tl.cast(scale, tl.float32), tl.cast(hidden, tl.float32)  # a wrapper may pass them as fp64
    dtype = keys_ptr.dtype.element_ty
    d = tl.arange(0, WIDTH)
    two = tl.arange(0, SIZE_2)
    RESIDENT: tl.constexpr = BLOCK_1 == SIZE_1 and BLOCK_K == WIDTH
    if RESIDENT:
        one = tl.arange(0, SIZE_1)
        q = tl.load(query_ptr + sample * width + d, mask=d < width, other=0.0)
        inside = (d < width)[:, None] & (one < size1)[None, :]
        at = w1_ptr + one[None, :] * (4 * width) + d[:, None]
        of_q = tl.load(at, mask=inside, other=0.0)
        of_k = tl.load(at + width, mask=inside, other=0.0)
        of_difference = tl.load(at + 2 * width, mask=inside, other=0.0)
        of_product = tl.load(at + 3 * width, mask=inside, other=0.0)
        base = tl.sum(q.to(tl.float32)[:, None] * of_q.to(tl.float32), axis=0)
        base += tl.load(b1_ptr + one, mask=one < size1, other=0.0).to(tl.float32)
        inside = (one < size1)[:, None] & (two < size2)[None, :]
        w2 = tl.load(w2_ptr + two[None, :] * size1 + one[:, None], mask=inside, other=0.0)
    b2 = tl.load(b2_ptr + two, mask=two < size2, other=0.0).to(tl.float32)
    w3 = tl.load(w3_ptr + two, mask=two < size2, other=0.0).to(tl.float32)
    b3 = tl.load(b3_ptr).to(tl.float32)
    largest = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    found = tl.zeros((WIDTH,), tl.float32)
    for first in range(0, length, STEPS):
        step = first + tl.arange(0, STEPS)
        of_step = keys_ptr + (sample * length + step)[:, None] * width
        there = (step < length)[:, None] & (d < width)[None, :]
        # ieee, not TF32: float32 is held to float32's error
        if RESIDENT:
            k = tl.load(of_step + d[None, :], mask=there, other=0.0)
            layer = tl.dot(k, of_k, input_precision="ieee")
            layer = tl.dot((q[None, :] - k).to(dtype), of_difference, layer, input_precision="ieee")
            layer = tl.dot((q[None, :] * k).to(dtype), of_product, layer, input_precision="ieee") + base[None, :]
            second = tl.dot(tl.maximum(layer, 0.0).to(dtype), w2, input_precision="ieee")
        else:
            second = tl.zeros((STEPS, SIZE_2), tl.float32)
            for start in range(0, SIZE_1, BLOCK_1):
                one = start + tl.arange(0, BLOCK_1)
                base = tl.load(b1_ptr + one, mask=one < size1, other=0.0).to(tl.float32)
                layer = tl.zeros((STEPS, BLOCK_1), tl.float32)
                for along in range(0, WIDTH, BLOCK_K):
                    part = along + tl.arange(0, BLOCK_K)
                    q = tl.load(query_ptr + sample * width + part, mask=part < width, other=0.0)
                    inside = (step < length)[:, None] & (part < width)[None, :]
                    k = tl.load(of_step + part[None, :], mask=inside, other=0.0)
                    inside = (part < width)[:, None] & (one < size1)[None, :]
                    at = w1_ptr + one[None, :] * (4 * width) + part[:, None]
                    weight = tl.load(at, mask=inside, other=0.0)
                    base += tl.sum(q.to(tl.float32)[:, None] * weight.to(tl.float32), axis=0)
                    weight = tl.load(at + width, mask=inside, other=0.0)
                    layer = tl.dot(k, weight, layer, input_precision="ieee")
                    weight = tl.load(at + 2 * width, mask=inside, other=0.0)
                    layer = tl.dot((q[None, :] - k).to(dtype), weight, layer, input_precision="ieee")
                    weight = tl.load(at + 3 * width, mask=inside, other=0.0)
                    layer = tl.dot((q[None, :] * k).to(dtype), weight, layer, input_precision="ieee")
                inside = (one < size1)[:, None] & (two < size2)[None, :]
                w2 = tl.load(w2_ptr + two[None, :] * size1 + one[:, None], mask=inside, other=0.0)
                layer = tl.maximum(layer + base[None, :], 0.0).to(dtype)
                second = tl.dot(layer, w2, second, input_precision="ieee")
            k = tl.load(of_step + d[None, :], mask=there, other=0.0)
        layer = tl.maximum(second + b2[None, :], 0.0)
        score = (tl.sum(layer * w3[None, :], axis=1) + b3) / scale
        seen = tl.load(mask_ptr + sample * length + step, mask=step < length, other=0)
        score = tl.where(seen != 0, score, hidden)
        score = tl.where(step < length, score, float("-inf"))
        larger = tl.maximum(largest, tl.max(score, axis=0))
        weights = tl.exp(score - larger)
        fade = tl.exp(largest - larger)
        total = total * fade + tl.sum(weights, axis=0)
        found = found * fade + tl.sum(weights[:, None] * k.to(tl.float32), axis=0)
        largest = larger
    out = found / total
    tl.store(out_ptr + sample * width + d, out.to(out_ptr.dtype.element_ty), mask=d < width)


_Q = either(repeated(tensor("query")), shared(call(aten.unsqueeze.default, tensor("query"), 1)))
_K = tensor("keys")


def _linear(x: Pattern, layer: int) -> Pattern:
    return call(aten.linear.default, x, tensor(f"w{layer}"), bias=tensor(f"b{layer}"))


def _relu(x: Pattern) -> Pattern:
    return call((aten.relu.default, aten.relu_.default), x)


_FEATURES = call(aten.cat.default, [_Q, _K, sub(_Q, _K), mul(_Q, _K)], anything("joined"))
_SCORES = call(aten.squeeze.dim, _linear(_relu(_linear(_relu(_linear(_FEATURES, 1)), 2)), 3), anything("squeezed"))
_SCALED = either(call(aten.div.Tensor, _SCORES, number("scale")), _SCORES)
_HIDDEN = either(
    call(
        aten.masked_fill.Scalar,
        _SCALED,
        shared(call((aten.bitwise_not.default, aten.logical_not.default), tensor("mask"))),
        number("hidden"),
    ),
    call(aten.masked_fill.Scalar, _SCALED, shared(call(aten.eq.Scalar, tensor("not_zero"), 0)), number("hidden")),
    call(aten.where.ScalarOther, tensor("mask"), _SCALED, number("hidden")),
    call(
        aten.where.self,
        tensor("mask"),
        _SCALED,
        call(aten.full_like.default, anything(), number("hidden"), pin_memory=anything()),
    ),
)
_WEIGHTS = softmax(_HIDDEN, anything("over"))


@register
class DinAttention(Kernel):
    name = "din_attention"
    schema = (
        "(Tensor query, Tensor keys, Tensor mask, Tensor w1, Tensor b1, Tensor w2, Tensor b2, Tensor w3, Tensor b3, "
        "float scale, float hidden) -> Tensor"
    )
    tolerances = products.TOLERANCES
    breadth = 9
    patterns: ClassVar[dict[str, Any]] = {
        "bmm(softmax(masked mlp(cat(q, k, q - k, q * k))), k)": call(
            aten.squeeze.dim,
            call((aten.bmm.default, aten.matmul.default), call(aten.unsqueeze.default, _WEIGHTS, 1), _K),
            1,
        ),
        "einsum('bl,bld->bd', softmax(masked mlp(cat(q, k, q - k, q * k))), k)": einsum("bl,bld->bd", _WEIGHTS, _K),
        "sum(softmax(masked mlp(cat(q, k, q - k, q * k))).unsqueeze(-1) * k, 1)": call(
            aten.sum.dim_IntList, mul(call(aten.unsqueeze.default, _WEIGHTS, anything("new")), _K), anything("summed")
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if not (is_dim(found["joined"], -1, 3) and is_dim(found["squeezed"], -1, 3) and is_dim(found["over"], -1, 2)):
            return "the features are not joined, or the scores not normalised, along the right dimension"
        if not (is_dim(found.get("new", -1), -1, 3) and is_dim(found.get("summed", 1), 1, 3)):
            return "the weights are not along the steps"
        layers = [found[f"{kind}{layer}"] for layer in (1, 2, 3) for kind in ("w", "b")]
        scale, hidden = float(found.get("scale", 1.0)), float(found["hidden"])
        mask = Made(aten.ne.Scalar, (found["not_zero"], 0)) if "not_zero" in found.values else found["mask"]
        return found["query"], found["keys"], mask, *layers, scale, hidden

    def reference(
        self,
        query: Tensor,
        keys: Tensor,
        mask: Tensor,
        w1: Tensor,
        b1: Tensor,
        w2: Tensor,
        b2: Tensor,
        w3: Tensor,
        b3: Tensor,
        scale: float,
        hidden: float,
    ) -> Tensor:
        q = query.unsqueeze(1).expand_as(keys)
        layer = F.relu(F.linear(torch.cat([q, keys, q - keys, q * keys], -1), w1, b1))
        layer = F.relu(F.linear(layer, w2, b2))
        scores = F.linear(layer, w3, b3).squeeze(-1) / scale
        lowest = max(hidden, torch.finfo(scores.dtype).min)  # -1e9 is no float16
        weights = torch.softmax(scores.masked_fill(~mask, lowest), -1)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1)

    def fake(self, query: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty(query.shape, dtype=query.dtype, device=query.device),)

    def configurations(self, query: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        # never 64 steps: Triton 3.7.1 then takes Blackwell's tensor memory, and its own pass over that fails
        if query.dtype == torch.float32:
            wide = configuration(num_warps=8, num_stages=1, STEPS=32, BLOCK_1=32, BLOCK_K=16)
            return (wide, configuration(num_warps=4, num_stages=1, STEPS=16, BLOCK_1=32, BLOCK_K=16))
        sliced = configuration(num_warps=4, num_stages=1, STEPS=32, BLOCK_1=32, BLOCK_K=32)
        return (configuration(num_warps=4, STEPS=32), sliced)

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        query, keys, mask, w1, b1, w2, b2, w3, b3, scale, hidden = args
        batch, length, width = keys.shape
        if not batch or not width:
            return []
        size1, size2 = w1.shape[0], w2.shape[0]
        tensors = [t.contiguous() for t in (query, keys, mask.to(torch.int8), w1, b1, w2, b2, w3, b3)]
        sizes = {"WIDTH": power_of_two(width, 16), "SIZE_1": power_of_two(size1, 16), "SIZE_2": power_of_two(size2, 16)}
        blocks = {"BLOCK_1": sizes["SIZE_1"], "BLOCK_K": sizes["WIDTH"]}
        blocks = {name: min(size, configuration.constants.get(name, size)) for name, size in blocks.items()}
        constants = {**sizes, **configuration.constants, **blocks}
        given = (*tensors, *outputs, length, width, size1, size2, scale, hidden)
        return [Launch(_kernel, (batch,), given, constants, configuration.num_warps, configuration.num_stages)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def given(batch: int, length: int, width: int, size1: int, size2: int) -> tuple[Tensor, ...]:
            mask = coins(batch, length, seed=9)
            mask[:, 0] = True
            sizes = ((size1, 4 * width), (size2, size1), (1, size2))
            layers = []
            for index, (n_out, n_in) in enumerate(sizes):
                layers.append(normal(n_out, n_in, dtype=dtype, seed=2 * index, scale=n_in**-0.5))
                layers.append(normal(n_out, dtype=dtype, seed=2 * index + 1, scale=0.3))
            return normal(batch, width, dtype=dtype, seed=7), normal(batch, length, width, dtype=dtype), mask, *layers

        return [
            Sample("3x5x7", (*given(3, 5, 7, 9, 6), 2.0, -1e9)),
            Sample("2x40x16", (*given(2, 40, 16, 32, 16), 4.0, -1e4)),
            Sample("2x70x20", (*given(2, 70, 20, 40, 17), 1.0, -1e9)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        query, keys, mask, *layers = self.samples(dtype)[0].args
        return [
            Sample("all hidden", (query, keys, torch.zeros_like(mask), *layers)),
            Sample("nothing hidden", (query, keys, torch.ones_like(mask), *layers)),
            Sample("one step", (query, keys[:, :1].contiguous(), mask[:, :1].contiguous(), *layers)),
            Sample("a query of zeros", (query * 0, keys, mask, *layers)),
            Sample("nothing", (query[:0], keys[:0], mask[:0], *layers)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        sizes = ((128, 256), (128,), (64, 128), (64,), (1, 64), (1,))
        layers = [meta(*size, dtype=dtype) for size in sizes]
        query, keys = meta(4096, 64, dtype=dtype), meta(4096, 100, 64, dtype=dtype)
        return Sample("4096x100x64", (query, keys, meta(4096, 100, dtype=torch.bool), *layers, 8.0, -1e9))

    def check(self, query: Tensor, keys: Tensor, mask: Tensor, *rest: Any) -> str | None:
        w1, b1, w2, b2, w3, b3, scale, _ = rest
        if query.dtype not in rows.FLOATS or any(t.dtype != query.dtype for t in (keys, w1, b1, w2, b2, w3, b3)):
            return f"query {query.dtype}, keys and layers are not of one float dtype"
        if query.dim() != 2 or keys.dim() != 3 or mask.dtype != torch.bool or scale == 0:
            return "the query is not [batch, width], the keys not [batch, steps, width], or the mask not bool"
        if mask.dim() != 2 or not all(same_size(a, b) for a, b in zip(mask.shape, keys.shape[:2], strict=True)):
            return f"the mask {tuple(mask.shape)} is not one value for each step of keys {tuple(keys.shape)}"
        width = keys.shape[2]
        if not same_size(query.shape[0], keys.shape[0]) or query.shape[1] != width or w1.shape[1] != 4 * width:
            return "query, keys and the first layer differ in batch or width"
        if w3.shape[0] != 1 or w2.shape[1] != w1.shape[0] or w3.shape[1] != w2.shape[0]:
            return "the layers do not follow from one another to one score"
        if width > WIDEST or max(w1.shape[0], w2.shape[0]) > WIDEST_LAYER:
            return f"keys of width {width} with layers of {w1.shape[0]} and {w2.shape[0]}: too wide for one program"
        return None

    def cost(self, query: Tensor, keys: Tensor, mask: Tensor, *rest: Any) -> Cost:
        layers = rest[:-2]
        steps = keys.shape[0] * keys.shape[1]
        width, size1, size2 = keys.shape[2], layers[0].shape[0], layers[2].shape[0]
        moved = 2 * query.numel() + keys.numel() + sum(t.numel() for t in layers)
        of_step = 2 * 3 * width * size1 + 2 * size1 * size2 + 2 * size2 + 4 * width + 4
        flops = steps * of_step + keys.shape[0] * 2 * width * size1  # the query's own part once a sample
        return Cost(bytes=moved * query.element_size() + mask.numel(), flops=flops)
