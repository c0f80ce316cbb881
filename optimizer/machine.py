"""Facts about this machine: what must be equal for two results to be compared (`fixed`), and what is merely noted.

Linux; elsewhere a fact that cannot be read is left out, never guessed. No torch.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimizer import devices

CPUINFO = Path("/proc/cpuinfo")
SYSTEM = Path("/sys")
LIBRARIES = ("torch", "triton", "numpy", "onnx", "onnxruntime", "openvino", "torchao")


# ---- the processor -------------------------------------------------------------------------------------------------


def cpu_isa(cpuinfo: str | None = None) -> list[str]:
    """The instruction set flags that every core has, sorted, under the kernel's names (`avx2`, `amx_bf16`, `asimd`)."""
    sets = [set(v.split()) for v in _fields(cpuinfo, "flags", "Features")]
    return sorted(set.intersection(*sets)) if sets else []


def cpu_model(cpuinfo: str | None = None) -> str:
    names = _fields(cpuinfo, "model name", "Model", "CPU part")
    return names[0] if names else platform.processor() or platform.machine()


def physical_cores(cpus: set[int] | None = None, system: Path = SYSTEM) -> int:
    """Distinct cores behind the CPUs that this process may use: two threads of one core count once."""
    allowed = cpus if cpus is not None else _affinity()
    cores = {
        _read(system / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in allowed
    }
    return max(1, len(cores))


def memory_bytes() -> int:
    """What this machine or its control group has, whichever is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read(SYSTEM / "fs/cgroup/memory.max")
    return min(total, int(limit)) if limit.isdigit() else total


def transparent_huge_pages(system: Path = SYSTEM) -> str | None:
    """`always`, `madvise` or `never`; None where the kernel has none."""
    chosen = re.search(r"\[(\w+)\]", _read(system / "kernel/mm/transparent_hugepage/enabled"))
    return chosen.group(1) if chosen else None


def governor(system: Path = SYSTEM) -> str | None:
    """How the clock is chosen; None where the machine does not say (most virtual ones)."""
    return _read(system / "devices/system/cpu/cpu0/cpufreq/scaling_governor") or None


# ---- conditions ----------------------------------------------------------------------------------------------------


def library_versions(names: tuple[str, ...] = LIBRARIES) -> dict[str, str]:
    """Versions of those that are installed."""
    found = {}
    for name in names:
        for distribution in (name, f"{name}-gpu"):  # one module under two names: onnxruntime
            try:
                found[name] = importlib.metadata.version(distribution)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def fixed_conditions(
    *, target: str, threads: int, settings: Mapping[str, Any] | None = None, libraries: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What must be equal for two results to be compared. `settings` are the runtime settings as recipes write them."""
    return {
        "target": target,
        **devices.conditions(target, devices.visible_here()),
        "cpu": cpu_model(),
        "isa": cpu_isa(),
        "cores": physical_cores(),
        "memory_gib": round(memory_bytes() / (1 << 30)),
        "system": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "transparent_huge_pages": transparent_huge_pages(),
        "governor": governor(),
        "libraries": dict(sorted((libraries if libraries is not None else library_versions()).items())),
        "threads": threads,
        "settings": dict(settings or {}),
    }


def observed_conditions() -> dict[str, Any]:
    """What was so at this moment, and may differ between two comparable results."""
    load = os.getloadavg()
    return {
        "load_average_1min": round(load[0], 2),
        "load_average_5min": round(load[1], 2),
        "cpus_allowed": len(_affinity()),
        "clock_mhz": [round(float(mhz)) for mhz in _fields(None, "cpu MHz")],
        "memory_available_bytes": _memory_available(),
        "kernel": platform.release(),
        "steal_share": _steal_share(),
    }


def fingerprint(fixed: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON: equal fingerprints mean comparable results."""
    text = json.dumps(fixed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


# ---- reading -------------------------------------------------------------------------------------------------------


def _fields(cpuinfo: str | None, *names: str) -> list[str]:
    """The values of the first of these names that /proc/cpuinfo has, one per core."""
    text = _read(CPUINFO) if cpuinfo is None else cpuinfo
    for name in names:
        values = re.findall(rf"^{re.escape(name)}\s*:\s*(.*)$", text, re.MULTILINE)
        if values:
            return [value.strip() for value in values]
    return []


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _memory_available() -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(Path("/proc/meminfo")), re.MULTILINE)
    return int(found.group(1)) << 10 if found else None


def _steal_share() -> float | None:
    """The share of CPU time since boot that the host gave to others."""
    first = _read(Path("/proc/stat")).partition("\n")[0].split()[1:]
    ticks: list[int] = [int(t) for t in first[:8]]
    total: int = sum(ticks)
    return round(ticks[7] / total, 4) if len(ticks) == 8 and total else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
