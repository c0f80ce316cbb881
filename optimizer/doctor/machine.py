"""Cores, memory, disk, instruction sets, clocks and GPUs: what the figures of a run depend on."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from optimizer import devices, machine
from optimizer.compiling.toolchain import default_folder
from optimizer.doctor.check import Check

GIB = 1 << 30
MIN_MEMORY_BYTES, GOOD_MEMORY_BYTES = 3 * GIB, 8 * GIB
MIN_DISK_BYTES, GOOD_DISK_BYTES = 1 * GIB, 8 * GIB
BUSY_LOAD_PER_CORE = 0.5
NO_GPU = "candidates for cuda targets are not run here; cpu targets need none"

# What an instruction set brings, by the kernel's names; the first that is there is enough.
BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")
INT8 = ("amx_int8", "avx512_vnni", "avx_vnni", "asimddp")
WIDE = ("avx512f", "sve", "avx2", "asimd")


def checks() -> Iterator[Check]:
    yield cores()
    yield memory()
    yield disk("scratch disk", Path(tempfile.gettempdir()))
    yield disk("cache disk", default_folder())
    yield from instruction_sets(set(machine.cpu_isa()))
    yield huge_pages()
    yield clock()
    yield load()
    yield gpu()


def cores() -> Check:
    physical, allowed, all_cpus = machine.physical_cores(), len(os.sched_getaffinity(0)), os.cpu_count() or 1
    found = f"{physical} physical, {allowed} of {all_cpus} logical CPUs may be used"
    if physical >= 2:
        return Check("cores", "ok", found)
    return Check("cores", "warn", found, "the coordinator shares the core that it measures on: wider intervals")


def memory() -> Check:
    total = machine.memory_bytes()
    found = f"{total / GIB:.1f} GiB for this process"
    if total >= GOOD_MEMORY_BYTES:
        return Check("memory", "ok", found)
    if total >= MIN_MEMORY_BYTES:
        return Check("memory", "warn", found, "models above some hundred MiB end as out_of_memory")
    return Check("memory", "fail", found, "two children of a gigabyte each do not fit", "give it 4 GiB or more")


def disk(name: str, folder: Path) -> Check:
    place = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / GIB:.1f} GiB free for {folder}"
    if free >= GOOD_DISK_BYTES:
        return Check(name, "ok", found)
    if free >= MIN_DISK_BYTES:
        return Check(name, "warn", found, "large models fill it: their builds end as runtime_error")
    return Check(name, "fail", found, "a run's artifacts do not fit", "free some space, or set TMPDIR")


def instruction_sets(flags: set[str]) -> Iterator[Check]:
    wide = _first(flags, WIDE)
    if wide:
        yield Check("vector unit", "ok", wide)
    else:
        yield Check("vector unit", "warn", "none known", "compiled kernels run scalar, several times slower")
    bfloat16 = _first(flags, BFLOAT16)
    if bfloat16:
        yield Check("bfloat16 unit", "ok", bfloat16)
    else:
        yield Check("bfloat16 unit", "warn", "none", "bfloat16 is emulated: such candidates are seldom faster here")
    int8 = _first(flags, INT8)
    if int8:
        yield Check("int8 unit", "ok", int8)
    else:
        yield Check("int8 unit", "warn", "none", "int8 has no advantage on this CPU")


def _first(flags: set[str], wanted: tuple[str, ...]) -> str | None:
    return next((name for name in wanted if name in flags), None)


def huge_pages() -> Check:
    mode = machine.transparent_huge_pages()
    if mode in {"always", "madvise"}:
        return Check("huge pages", "ok", mode)
    cost = "the runtime setting `huge_pages` has no effect"
    return Check("huge pages", "warn", mode or "not in this kernel", cost, "" if mode is None else "set it to madvise")


def clock() -> Check:
    governor = machine.governor()
    if governor is None:
        return Check("clock", "ok", "the machine does not say how it is chosen (usual for virtual ones)")
    if governor == "performance":
        return Check("clock", "ok", governor)
    cost = "the clock moves while measuring: wider intervals, more pairs"
    return Check("clock", "warn", governor, cost, "set the governor to performance while you measure")


def load() -> Check:
    average = os.getloadavg()[0]
    found = f"{average:.2f} over the last minute"
    if average <= BUSY_LOAD_PER_CORE * len(os.sched_getaffinity(0)):
        return Check("load", "ok", found)
    return Check("load", "warn", found, "others use the cores: wider intervals, more often `cannot tell`")


def gpu(root: Path = devices.ROOT, torch_folder: Path | None = None) -> Check:
    """What a child needs of a GPU: the nodes, the driver's library, a torch with CUDA. No run on one was tried yet."""
    reason = devices.why_none(root)
    if reason is not None:
        text, _, remedy = reason.partition(": ")
        return Check("GPU", "warn", text, NO_GPU, remedy)
    named = "; ".join(f"{one.index}: {one.model or one.node}" for one in devices.gpus(root))
    found = f"{named}, driver {devices.driver_version(root) or 'of an unknown version'}"
    folder = torch_folder or _package_folder("torch")
    if folder is None or not any((folder / "lib").glob("libtorch_cuda*.so")):
        return Check("GPU", "warn", f"{found}; this torch is built without CUDA", NO_GPU, "install a torch with CUDA")
    return _as_the_driver_says(found)


def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _as_the_driver_says(found: str) -> Check:
    program = shutil.which("nvidia-smi")
    if program is None:
        return Check("GPU", "ok", found)
    query = [program, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return Check("GPU", "warn", "nvidia-smi does not answer", NO_GPU, "look at the driver's log")
    if answer.returncode != 0 or not answer.stdout.strip():
        return Check("GPU", "warn", answer.stdout.strip()[:200] or "nvidia-smi fails", NO_GPU, "reinstall the driver")
    return Check("GPU", "ok", "; ".join(answer.stdout.strip().splitlines()))
