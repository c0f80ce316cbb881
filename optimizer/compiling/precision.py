"""Lower precisions: whether a processor gains from one, and the rewrite for it. No torch until it rewrites."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from optimizer.spec import KeepFloat32, LayerShape

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# Flags of /proc/cpuinfo for instructions that multiply bfloat16 natively, and that sum products of int8 in int32.
BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
INT8_FLAGS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"})
FIRST_SM_WITH_BFLOAT16 = 80


def supported(isa_flags: Collection[str]) -> str | None:
    """Why bfloat16 is not proposed on a CPU with these flags; None when it is. An explicit request still works."""
    if BFLOAT16_FLAGS & set(isa_flags):
        return None
    return "this processor multiplies no bfloat16 (neither avx512_bf16 nor amx_bf16): it would be emulated in float32"


def refusal(target: str, isa_flags: Collection[str]) -> str | None:
    """Why bfloat16 is not proposed for a target; None when it is. The flags are those of this machine's processor."""
    kind, _, arch = target.partition(":")
    if kind == "cpu":
        return supported(isa_flags)
    if kind == "cuda" and int(re.sub(r"\D", "", arch) or 0) < FIRST_SM_WITH_BFLOAT16:
        return f"{arch} multiplies no bfloat16 (sm_{FIRST_SM_WITH_BFLOAT16} does): it would be emulated in float32"
    return None


def int8_refusal(target: str, isa_flags: Collection[str]) -> str | None:
    """Why int8 is not proposed for a target; None when it is. The flags are those of this machine's processor."""
    if target != "cpu":
        return f"the rewrite to int8 is one for processors, and the target is {target}"
    if INT8_FLAGS & set(isa_flags):
        return None
    return "this processor sums no products of int8 (neither avx512_vnni, avx_vnni nor amx_int8): it would be slower"


def to_bfloat16(exported: ExportedProgram, keep_float32: KeepFloat32) -> ExportedProgram:
    """The program with its matrix products, convolutions and tables in bfloat16; see `bfloat16`."""
    from optimizer.compiling.bfloat16 import to_bfloat16 as rewrite

    return rewrite(exported, keep_float32)


def to_int8(
    exported: ExportedProgram, keep_float32: KeepFloat32, weight_only: Sequence[LayerShape] = ()
) -> ExportedProgram:
    """The program with its linear layers in int8; see `int8`."""
    from optimizer.compiling.int8 import to_int8 as rewrite

    return rewrite(exported, keep_float32, weight_only)
