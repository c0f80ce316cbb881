"""Settings of a serving process as its environment, and what this machine honours of them. No torch.

The C library and OpenMP read these once, when a process starts: set them before, never from within. The same dict is
what contenders are measured under and what a package's `run.py` re-executes itself with.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from optimizer import denormals
from optimizer.machine import physical_cores, transparent_huge_pages
from optimizer.spec import RuntimeSettings

# Beyond any tensor: malloc never gives memory back, so each page is faulted in once and not at every call.
NEVER_BYTES = 4 << 30
TOP_PAD_BYTES = 64 << 20

NO_TRIM = {
    "MALLOC_TRIM_THRESHOLD_": str(NEVER_BYTES),
    "MALLOC_MMAP_THRESHOLD_": str(NEVER_BYTES),
    "MALLOC_TOP_PAD_": str(TOP_PAD_BYTES),
}
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
HUGE_PAGES_SINCE = (2, 35)
BOUND = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}


def environment(settings: RuntimeSettings, threads: int) -> dict[str, str]:
    """The variables a process needs for these settings. `settings.threads` wins over `threads`. Denormals are no
    variable's: a process sets them itself (`optimizer/denormals.py`).

    The MALLOC_ names and GLIBC_TUNABLES take effect together: glibc reads both.
    """
    count = str(settings.threads or threads)
    found = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    if settings.allocator == "glibc-no-trim":
        found |= NO_TRIM
    if settings.huge_pages:
        found |= HUGE_PAGES
    if settings.thread_binding == "cores":
        found |= BOUND
    if settings.thread_waiting != "default":
        found["OMP_WAIT_POLICY"] = settings.thread_waiting.upper()
    return found


def available() -> dict[str, Any]:
    """What this machine honours: `reason` of a setting is None when it takes effect, else why it does not."""
    library, version = libc()
    pages = transparent_huge_pages()
    reasons: dict[str, str | None] = {"allocator": None, "huge_pages": None, "denormals": denormals.unavailable()}
    if library != "glibc":
        reasons["allocator"] = reasons["huge_pages"] = f"these settings are glibc's, and this Python runs on {library}"
    elif _numbers(version) < HUGE_PAGES_SINCE:
        reasons["huge_pages"] = f"glibc {version} has no glibc.malloc.hugetlb (2.35 and later do)"
    elif pages not in {"madvise", "always"}:
        reasons["huge_pages"] = f"transparent huge pages are {pages or 'not there'} on this machine"
    return {"libc": library, "libc_version": version, "transparent_huge_pages": pages, "reasons": reasons}


def honoured(settings: RuntimeSettings) -> str | None:
    """Why these settings would not take effect here, or None."""
    reasons = available()["reasons"]
    if settings.allocator != "default" and reasons["allocator"]:
        return str(reasons["allocator"])
    if settings.huge_pages and reasons["huge_pages"]:
        return str(reasons["huge_pages"])
    if settings.denormals == "flushed" and reasons["denormals"]:
        return str(reasons["denormals"])
    return None


def default_threads() -> int:
    """Physical cores among the CPUs that this process may use."""
    return physical_cores()


def libc() -> tuple[str, str]:
    """Name and version of the C library this Python runs on, such as `("glibc", "2.36")`."""
    name, version = platform.libc_ver()
    if name:
        return name, version
    return ("musl", "") if any(Path("/lib").glob("ld-musl-*")) else (os.uname().sysname.lower(), "")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
