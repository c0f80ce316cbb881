"""Reads compiled code: instruction mix, spills, width of loads, tensor-core instructions. Text in, figures out.

NVIDIA: what `nvdisasm` prints, with labels or (of raw code) with addresses as the targets of jumps. AMD: the assembly
that LLVM emits. Counts are of instructions in the code, not of executions: a loop's body counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

WIDE_BITS = 128

_SASS = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)")
_LABEL = re.compile(r"^\.L_\S*:")
_TARGET = re.compile(r"\s(?:BRA|BSSY|CALL)\S*\s.*?\b0x([0-9a-f]+)\s*;")
_JUMPS = frozenset({"BRA", "BRX", "EXIT", "RET", "CALL", "BSYNC", "WARPSYNC", "BREAK"})
_TENSOR = frozenset({"HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "UTCHMMA",
                     "UTCQMMA", "UTCIMMA", "UTCOMMA"})  # fmt: skip
_GROUPS: dict[str, frozenset[str]] = {
    "global_load": frozenset({"LDG"}),
    "global_store": frozenset({"STG"}),
    "async_copy": frozenset({"LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG", "UTMAREDG"}),
    "shared": frozenset({"LDS", "STS", "LDSM", "STSM"}),
    "spill": frozenset({"LDL", "STL"}),
    "tensor_core": _TENSOR,
    "atomic": frozenset({"ATOM", "ATOMG", "ATOMS", "RED", "REDG"}),
    "special_function": frozenset({"MUFU"}),
    "shuffle": frozenset({"SHFL", "REDUX"}),
    "barrier": frozenset({"BAR", "DEPBAR", "LDGDEPBAR", "SYNCS", "MEMBAR", "FENCE", "ERRBAR", "WARPGROUP"}),
    "float64": frozenset({"DADD", "DFMA", "DMUL", "DSETP"}),
    "control": _JUMPS | {"BSSY", "NOP", "YIELD", "NANOSLEEP"},
}
_FLOAT = re.compile(r"^(F|H)(ADD|FMA|MUL|SET|SETP|SEL|MNMX|CHK)\d?$|^(HADD2|HFMA2|HMUL2|F2F|F2FP|I2F|I2FP|F2I)$")
_SASS_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}


@dataclass(frozen=True)
class MachineCode:
    """`loads` and `stores`: instructions on global memory by their width in bits, asynchronous copies among the loads.
    `load_bytes`: what one thread has asked for at most before it must wait, counted in one stretch of straight code."""

    instructions: int
    mix: dict[str, int] = field(default_factory=dict)
    loads: dict[int, int] = field(default_factory=dict)
    stores: dict[int, int] = field(default_factory=dict)
    spills: int = 0
    tensor_cores: int = 0
    load_bytes: int = 0
    async_copies: int = 0

    @property
    def vector_loads(self) -> int:
        """Those of 128 bits and more."""
        return sum(count for bits, count in self.loads.items() if bits >= WIDE_BITS)

    @property
    def vector_stores(self) -> int:
        return sum(count for bits, count in self.stores.items() if bits >= WIDE_BITS)


def read_sass(text: str) -> MachineCode:
    """What `nvdisasm` printed of one kernel."""
    mix: Counter[str] = Counter()
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    total = most = here = 0
    for opcode in _sass_opcodes(text):
        if opcode is None:  # another stretch begins
            here = 0
            continue
        name, *modifiers = opcode.split(".")
        total += 1
        mix[_group(name)] += 1
        bits = next((_SASS_BITS[m] for m in modifiers if m in _SASS_BITS), 32)
        if name == "LDG":
            loads[bits] += 1
            here += bits // 8
            most = max(most, here)
        elif name == "LDGSTS":
            loads[bits] += 1
        elif name == "STG":
            stores[bits] += 1
        if name in _JUMPS:
            here = 0
    return MachineCode(
        instructions=total,
        mix=dict(sorted(mix.items())),
        loads=dict(sorted(loads.items())),
        stores=dict(sorted(stores.items())),
        spills=mix["spill"],
        tensor_cores=mix["tensor_core"],
        load_bytes=most,
        async_copies=mix["async_copy"],
    )


def _sass_opcodes(text: str) -> Iterator[str | None]:
    """Each instruction's name with its modifiers; None where a stretch begins that is jumped to."""
    lines = text.splitlines()
    targets = {int(found.group(1), 16) for line in lines if (found := _TARGET.search(line))}
    for line in lines:
        if _LABEL.match(line):
            yield None
        elif found := _SASS.match(line):
            if int(found.group(1), 16) in targets:
                yield None
            yield found.group(2)


def _group(name: str) -> str:
    for group, names in _GROUPS.items():
        if name in names:
            return group
    return "float" if _FLOAT.match(name) else "integer_and_move"


# ---- AMD -------------------------------------------------------------------------------------------------------------

_AMD = re.compile(r"^\s+([a-z]+_[a-z0-9_]+)\b")
_AMD_WIDTHS = {"dwordx4": 128, "dwordx3": 96, "dwordx2": 64, "dword": 32, "b128": 128, "b96": 96, "b64": 64, "b32": 32,
               "short": 16, "ushort": 16, "sshort": 16, "ubyte": 8, "sbyte": 8, "byte": 8}  # fmt: skip
_AMD_GROUPS = (
    ("global_load", re.compile(r"^(global|buffer|flat)_load_")),
    ("global_store", re.compile(r"^(global|buffer|flat)_store_")),
    ("atomic", re.compile(r"_atomic_")),
    ("spill", re.compile(r"^scratch_(load|store)_")),
    ("shared", re.compile(r"^ds_(read|write|load|store)")),
    ("shuffle", re.compile(r"^ds_(bpermute|permute|swizzle)|^v_readlane|^v_writelane")),
    ("tensor_core", re.compile(r"^v_(s?mfma|smfmac)_")),
    ("special_function", re.compile(r"^v_(exp|log|rcp|rsq|sqrt|sin|cos)_")),
    ("barrier", re.compile(r"^s_(barrier|waitcnt)")),
    ("control", re.compile(r"^s_(branch|cbranch|endpgm|nop)")),
    ("float64", re.compile(r"^v_.*_f64")),
    ("float", re.compile(r"^v_.*_(f32|f16|bf16)")),
)
_AMD_METADATA = ("vgpr_count", "sgpr_count", "vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size")


def read_amd_assembly(text: str) -> MachineCode:
    """The assembly that LLVM emitted of one kernel."""
    mix: Counter[str] = Counter()
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    total = most = here = copies = 0
    for line in text.splitlines():
        if line.startswith((".LBB", "BB")):
            here = 0
        found = _AMD.match(line)
        if not found or line.lstrip().startswith("."):
            continue
        name = found.group(1)
        total += 1
        group = next((group for group, pattern in _AMD_GROUPS if pattern.search(name)), "integer_and_move")
        mix[group] += 1
        bits = next((bits for word, bits in _AMD_WIDTHS.items() if name.endswith(word)), 32)
        if group == "global_load":
            loads[bits] += 1
            copies += "lds" in line.split(";")[0].split()
            here += bits // 8
            most = max(most, here)
        elif group == "global_store":
            stores[bits] += 1
        elif group == "control":
            here = 0
    return MachineCode(
        instructions=total,
        mix=dict(sorted(mix.items())),
        loads=dict(sorted(loads.items())),
        stores=dict(sorted(stores.items())),
        spills=mix["spill"],
        tensor_cores=mix["tensor_core"],
        load_bytes=most,
        async_copies=copies,
    )


def amd_metadata(text: str) -> dict[str, int]:
    """Registers, spills and stack of one kernel: the assembly's own note at its end."""
    found = {name: re.search(rf"\.{name}:\s*(\d+)", text) for name in _AMD_METADATA}
    return {name: int(match.group(1)) for name, match in found.items() if match}
