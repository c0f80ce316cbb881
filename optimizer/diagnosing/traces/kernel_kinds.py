"""What a kernel is for, by its name: what one cannot see in a name is `other`.

Two readings. `KINDS` puts each kernel into one kind, so that the kinds add up. `MARKS` are properties that a kernel may
have beside others; they go by substrings, as the field's own tools do.
"""

from __future__ import annotations

import re
from functools import lru_cache

COMMUNICATION = re.compile(r"nccl|rccl|msccl", re.IGNORECASE)
# 884: Volta; 1688, 16816: Turing to Ampere; tensorop: CUTLASS; wgmma, nvjet: Hopper on; _MI16x16: AMD's MFMA by Tensile
TENSOR_CORE = re.compile(
    r"884|s1688|16816|tensorop|wgmma|gmma_|nvjet|[hi]mma_|mfma|_MI\d+x\d+|flash_fwd|flash_bwd|fmha_"
)
# what cuDNN calls by its tile's shape only
ALSO_TENSOR_CORE = re.compile(r"_tensor\d+x\d+x\d+|_mma_|xmma.*(?:f16f16|bf16bf16|tf32)")
FP32_SIMT = re.compile(r"sgemm|scudnn")
LAYOUT = re.compile(r"nchwToNhwc|nhwcToNchw|permute|transpose|CatArray", re.IGNORECASE)
# by name only: an argument of this type says nothing of the work
DOUBLE = re.compile(r"dgemm|ddot|_dgetrf|(?:Functor\w*|kernel\w*|Op)<(?:\d+, )*double|Functor\w*<double")

# the first that fits counts
KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("communication", COMMUNICATION),
    ("embedding", re.compile(r"embedding|\btbe_|bounds_check_indices|linearize_index", re.IGNORECASE)),
    ("attention", re.compile(r"flash_(?:fwd|bwd)|fmha|attention|mem_eff|sdpa", re.IGNORECASE)),
    ("optimizer", re.compile(r"multi_tensor_apply|FusedAdam|adam_?functor|fused_?(?:adam|sgd|lamb)", re.IGNORECASE)),
    ("cat", re.compile(r"CatArray|\bcat_kernel", re.IGNORECASE)),
    ("layout", re.compile(r"nchwToNhwc|nhwcToNchw|transpose", re.IGNORECASE)),
    ("convolution", re.compile(r"conv|dgrad|wgrad|fprop|winograd|scudnn|miopen.*(?:Conv|Sp3)", re.IGNORECASE)),
    ("gemm", re.compile(r"gemm|splitk|cublas|nvjet|Cijk_|gemv|\bmatmul|dot_kernel", re.IGNORECASE)),
    ("permute", re.compile(r"permute|recat|reorder", re.IGNORECASE)),
    ("norm", re.compile(r"norm|bn_(?:fw|bw)|GammaBeta", re.IGNORECASE)),
    ("softmax", re.compile(r"softmax", re.IGNORECASE)),
    ("index", re.compile(r"index|gather|scatter|radix|sort|unique|bucketize|DeviceScan|ReduceByKey", re.IGNORECASE)),
    ("copy", re.compile(r"copy", re.IGNORECASE)),
    ("fill", re.compile(r"FillFunctor|\bfill_kernel|fillkernel", re.IGNORECASE)),
    ("compiled", re.compile(r"^triton_", re.IGNORECASE)),
    ("reduction", re.compile(r"reduce|reduction|pool", re.IGNORECASE)),
    ("elementwise", re.compile(r"elementwise|pointwise", re.IGNORECASE)),
)
MARKS = {
    "communication": COMMUNICATION,
    "gemm": re.compile("gemm", re.IGNORECASE),
    "embedding": re.compile("embedding", re.IGNORECASE),
    "tensor_core": TENSOR_CORE,
    "also_tensor_core": ALSO_TENSOR_CORE,
    "fp32_simt": FP32_SIMT,
    "layout": LAYOUT,
    "double": DOUBLE,
    "cat": re.compile("CatArray"),
    "indexing_backward": re.compile(r"indexing_backward|index_put|index_add|indexFunc|RadixSort", re.IGNORECASE),
    "fill": re.compile(r"FillFunctor"),
}


@lru_cache(maxsize=100_000)
def kind_of(name: str) -> str:
    return next((kind for kind, pattern in KINDS if pattern.search(name)), "other")


@lru_cache(maxsize=100_000)
def marks_of(name: str) -> frozenset[str]:
    return frozenset(mark for mark, pattern in MARKS.items() if pattern.search(name))
