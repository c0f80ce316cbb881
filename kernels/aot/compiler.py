"""Triton as a compiler for a GPU that is not there, and the tools of its wheel that read the result.

The only module of the project that touches Triton's compiler: `ASTSource`, `triton.compile`, the metadata, and the
binaries `cuobjdump` and `nvdisasm`. Checked on the versions of CHECKED_VERSIONS. Not in a process that interprets.
"""

from __future__ import annotations

import bisect
import copy
import hashlib
import importlib.util
import inspect
import itertools
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.aot.devices import Device
from kernels.aot.machine_code import MachineCode, amd_metadata, read_amd_assembly, read_sass

CHECKED_VERSIONS = ("3.7.1",)
ALIGNMENT = 16  # bytes, and the divisor of integers, that let Triton use 128-bit accesses
TOOL_TIMEOUT_S = 60.0
DTYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "i1",
}  # fmt: skip


class Unavailable(RuntimeError):
    """Nothing can be compiled on this machine; the remedy stands behind a colon."""


class DoesNotCompile(RuntimeError):
    """The compiler refused the kernel, in its own words."""


@dataclass(frozen=True)
class Source:
    """What the compiler is given. `signature`: a Triton type or `constexpr` for each parameter, in order."""

    function: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    aligned: Sequence[str]
    num_warps: int
    num_stages: int
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """`registers` of one thread, `shared_bytes` of one block, `stack_bytes` of one thread."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spills: int
    warps: int
    code: MachineCode
    binary: bytes
    entry: str


def why_unavailable(target: str) -> str | None:
    """Why nothing can be compiled for the target here, with the remedy behind a colon; None when it can."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed: it has wheels for Linux on x86-64 only; run this there"
    import triton

    if triton.knobs.runtime.interpret:
        return "this process interprets Triton (TRITON_INTERPRET): compile in another one"
    if triton.__version__ not in CHECKED_VERSIONS:
        checked = " and ".join(CHECKED_VERSIONS)
        return f"triton {triton.__version__} was not checked: install triton {checked} (`make setup`)"
    if target.startswith("cuda:"):
        missing = [tool for tool in (_ptxas(target), "cuobjdump", "nvdisasm") if _tool(tool) is None]
        if missing:
            return f"{' and '.join(missing)} cannot be found: reinstall triton, whose wheel brings them (`make setup`)"
    return None


def source_of(
    function: Any, args: Sequence[Any], constants: Mapping[str, Any], num_warps: int, num_stages: int
) -> Source:
    """What Triton would make of a call with these arguments (tensors may be on the meta device) at its first launch.

    A number that is 1 becomes a constant; pointers and integers that 16 divides are marked so. A buffer of its own is
    aligned on every device; a view is where its offset leaves it so.
    """
    names = list(inspect.signature(function.fn).parameters)
    signature: dict[str, str] = {}
    fixed = dict(constants)
    aligned = []
    for name, value in zip(names, args, strict=False):
        if value is None or (type(value) is int and value == 1):
            signature[name], fixed[name] = "constexpr", value
        elif isinstance(value, bool):
            signature[name] = "u1"
        elif isinstance(value, int):
            signature[name] = "i32" if -(2**31) <= value < 2**31 else "i64"
            aligned += [name] if value % ALIGNMENT == 0 else []
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            dtype = str(value.dtype).removeprefix("torch.")
            signature[name] = f"*{DTYPES[dtype]}"
            aligned += [name] if value.storage_offset() * value.element_size() % ALIGNMENT == 0 else []
    ordered = {name: signature.get(name, "constexpr") for name in names}
    missing = [name for name in names if ordered[name] == "constexpr" and name not in fixed]
    if missing:
        raise ValueError(f"{function.fn.__name__} is given no value for {', '.join(missing)}")
    return Source(function, ordered, fixed, aligned, num_warps, num_stages)


def identity(source: Source) -> str:
    """Equal where the compiler would give equal code for every target: its version, the text, and what is constant."""
    import triton

    parts = [
        triton.__version__, _text_of(source.function), sorted(source.signature.items()),
        sorted((name, str(value)) for name, value in source.constants.items()), sorted(source.aligned),
        source.num_warps, source.num_stages, sorted(source.options.items()),
    ]  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _text_of(function: Any) -> str:
    """Triton's own key of a function, but for the line that it begins on: that moves with the imports above it."""
    anywhere = copy.copy(function)
    anywhere.hash, anywhere.starting_line_number = None, 0
    return str(anywhere.cache_key)


def compile_source(source: Source, device: Device) -> Compiled:
    """Raises Unavailable, DoesNotCompile."""
    (found,) = compile_sources([source], device)
    if isinstance(found, DoesNotCompile):
        raise found
    return found


def compile_sources(sources: Sequence[Source], device: Device) -> list[Compiled | DoesNotCompile]:
    """Many at once, read by one start of the disassembler, which takes longer than a kernel. Raises Unavailable."""
    reason = why_unavailable(device.target)
    if reason is not None:
        raise Unavailable(reason)
    built = [_build(source, device) for source in sources]
    good = [one for one in built if not isinstance(one, DoesNotCompile)]
    read = iter(_read_nvidia(good, device) if device.maker == "nvidia" else [_read_amd(one) for one in good])
    return [one if isinstance(one, DoesNotCompile) else next(read) for one in built]


def _build(source: Source, device: Device) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    arch: int | str = device.architecture
    if device.maker == "nvidia":
        arch = int(device.architecture.removeprefix("sm_"))
    names = list(source.signature)
    given = ASTSource(
        fn=source.function,
        signature=dict(source.signature),
        constexprs={(names.index(name),): value for name, value in source.constants.items() if name in names},
        attrs={(names.index(name),): [["tt.divisibility", ALIGNMENT]] for name in source.aligned},
    )
    target = GPUTarget("cuda" if device.maker == "nvidia" else "hip", arch, device.warp_size)
    options = {"num_warps": source.num_warps, "num_stages": source.num_stages, **source.options}
    try:
        return triton.compile(given, target=target, options=options)
    except Exception as error:  # the compiler raises many kinds, its own and MLIR's
        failed = DoesNotCompile(f"{type(error).__name__}: {error}"[:2000])
        failed.__cause__ = error
        return failed


def _read_nvidia(built: Sequence[Any], device: Device) -> list[Compiled]:
    found = []
    with tempfile.TemporaryDirectory(prefix="cubins-") as folder:
        texts = _disassembled([one.asm["cubin"] for one in built], device, Path(folder))
        for one, text in zip(built, texts, strict=True):
            file = Path(folder) / "one.cubin"
            file.write_bytes(one.asm["cubin"])
            usage = _run("cuobjdump", "-res-usage", str(file))
            used = {name: int(value) for name, value in re.findall(r"\b(REG|STACK):(\d+)", usage)}
            code = read_sass(text)
            # what cuobjdump says of shared memory is 1 KB too much for some kernels on sm_90
            found.append(_compiled(one, used["REG"], used["STACK"], code.spills, code, one.asm["cubin"]))
    return found


def _disassembled(cubins: Sequence[bytes], device: Device, folder: Path) -> list[str]:
    """The instructions of each, disassembled as one raw stretch and cut again by their addresses."""
    if not cubins:
        return []
    codes = [_instructions(cubin) for cubin in cubins]
    raw = folder / "raw.bin"
    raw.write_bytes(b"".join(codes))
    suffix = "a" if int(device.architecture.removeprefix("sm_")) >= 90 else ""  # as Triton compiles for them
    text = _run("nvdisasm", "--binary", device.architecture.replace("sm_", "SM") + suffix, str(raw))
    ends = list(itertools.accumulate(len(code) for code in codes))
    lines: list[list[str]] = [[] for _ in codes]
    for line in text.splitlines():
        if found := re.match(r"\s*/\*([0-9a-f]{4,})\*/", line):
            lines[bisect.bisect_right(ends, int(found.group(1), 16))].append(line)
    return ["\n".join(of_one) for of_one in lines]


def _instructions(cubin: bytes) -> bytes:
    """The section `.text.*` of an ELF file; Triton leaves one kernel in each."""
    (headers,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, headers + place * size) for place in range(count)]
    for name, _, _, _, offset, length in sections:
        start = sections[names][4] + name
        if cubin[start : cubin.index(b"\0", start)].startswith(b".text."):
            return cubin[offset : offset + length]
    raise DoesNotCompile("what was compiled holds no code")


def _read_amd(built: Any) -> Compiled:
    text: str = built.asm["amdgcn"]
    told, code = amd_metadata(text), read_amd_assembly(text)
    spills = told["vgpr_spill_count"] + told["sgpr_spill_count"]
    return _compiled(built, told["vgpr_count"], told["private_segment_fixed_size"], spills, code, built.asm["hsaco"])


def _compiled(built: Any, registers: int, stack: int, spills: int, code: MachineCode, binary: bytes) -> Compiled:
    told = built.metadata
    return Compiled(registers, int(told.shared), stack, spills, int(told.num_warps), code, binary, str(told.name))


def _ptxas(target: str) -> str:
    return "ptxas-blackwell" if int(target.partition("sm_")[2] or 0) >= 100 else "ptxas"


def _tool(name: str) -> Path | None:
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    return path if os.access(path, os.X_OK) else None


def _run(tool: str, *arguments: str) -> str:
    path = _tool(tool)
    assert path is not None, tool
    done = subprocess.run([str(path), *arguments], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S)
    if done.returncode != 0:
        raise DoesNotCompile(f"{tool} cannot read what was compiled: {done.stderr.strip()[:500]}")
    return done.stdout
