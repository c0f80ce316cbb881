"""Runtime settings: the variables, that the C library really obeys them, and what a machine without it is told."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from optimizer import runtime_settings
from optimizer.runtime_settings import available, environment, honoured, libc
from optimizer.spec import RuntimeSettings

NO_TRIM = RuntimeSettings(allocator="glibc-no-trim")
on_glibc = pytest.mark.skipif(libc()[0] != "glibc", reason="glibc's settings")

# Allocates and touches 8, 48 and 100 MiB again and again; prints the page faults a round, and the huge pages in KiB.
PROBE = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def once():
    for mib in (8, 48, 100):
        at = libc.malloc(mib << 20)
        libc.memset(at, 1, mib << 20)
        libc.free(at)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    once()
before = faults()
for _ in range(5):
    once()
taken = (faults() - before) // 5
at = libc.malloc(64 << 20)
libc.memset(at, 1, 64 << 20)
huge = sum(int(line.split()[1]) for line in open("/proc/self/smaps") if line.startswith("AnonHugePages"))
print(taken, huge)
"""


def probe(settings: RuntimeSettings) -> tuple[int, int]:
    given = {**os.environ, **environment(settings, 1)}
    said = subprocess.run([sys.executable, "-c", PROBE], env=given, capture_output=True, text=True, check=True).stdout
    faults, huge_kib = said.split()
    return int(faults), int(huge_kib)


def test_default_settings_set_threads_only() -> None:
    assert environment(RuntimeSettings(), 3) == {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}


def test_threads_of_the_settings_win() -> None:
    assert environment(RuntimeSettings(threads=5), 3)["OMP_NUM_THREADS"] == "5"


def test_allocator_and_huge_pages_are_apart() -> None:
    allocator = environment(NO_TRIM, 1)
    assert allocator["MALLOC_TRIM_THRESHOLD_"] == allocator["MALLOC_MMAP_THRESHOLD_"] == "4294967296"
    assert allocator["MALLOC_TOP_PAD_"] == "67108864"
    assert "GLIBC_TUNABLES" not in allocator
    pages = environment(RuntimeSettings(huge_pages=True), 1)
    assert pages["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert not any(name.startswith("MALLOC_") for name in pages)


def test_binding_and_waiting_are_openmps() -> None:
    bound = environment(RuntimeSettings(thread_binding="cores"), 2)
    assert (bound["OMP_PROC_BIND"], bound["OMP_PLACES"]) == ("close", "cores")
    assert "OMP_WAIT_POLICY" not in bound
    assert environment(RuntimeSettings(thread_waiting="passive"), 2)["OMP_WAIT_POLICY"] == "PASSIVE"
    assert environment(RuntimeSettings(thread_waiting="active"), 2)["OMP_WAIT_POLICY"] == "ACTIVE"


def test_denormals_are_no_variables() -> None:
    assert environment(RuntimeSettings(denormals="flushed"), 2) == environment(RuntimeSettings(), 2)


# Runs parallel work, then sleeps; prints the CPU time used meanwhile in milliseconds, and whether a thread is bound.
OPENMP_PROBE = """
import os, pathlib, time, torch
x = torch.ones(1 << 20)
for _ in range(20):
    x = x * 1.0
before = time.process_time()
time.sleep(0.3)
used_ms = 1e3 * (time.process_time() - before)
lists = [(t / "status").read_text().split("Cpus_allowed_list:")[1].split()[0]
         for t in pathlib.Path("/proc/self/task").iterdir()]
print(used_ms, sum(one.isdigit() for one in lists))
"""


def openmp_probe(settings: RuntimeSettings) -> tuple[float, int]:
    given = {**os.environ, **environment(settings, 2)}
    command = [sys.executable, "-c", OPENMP_PROBE]
    said = subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), int(said[1])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_torchs_threads_wait_and_stay_where_the_settings_say() -> None:
    spinning_ms, unbound = openmp_probe(RuntimeSettings(thread_waiting="active"))
    sleeping_ms, bound = openmp_probe(RuntimeSettings(thread_waiting="passive", thread_binding="cores"))
    assert spinning_ms > 20, "of the 300: a busy machine gives a spinning thread its share"
    assert sleeping_ms < 15
    assert (unbound, bound >= 2) == (0, True)


@on_glibc
def test_without_trimming_large_buffers_are_faulted_in_once() -> None:
    pages_of_one_large_buffer = (100 << 20) // os.sysconf("SC_PAGE_SIZE")
    by_default, _ = probe(RuntimeSettings())
    kept, _ = probe(NO_TRIM)
    assert by_default > pages_of_one_large_buffer / 2
    assert kept < 20


@on_glibc
@pytest.mark.skipif(available()["reasons"]["huge_pages"] is not None, reason=str(available()["reasons"]["huge_pages"]))
def test_huge_pages_take_effect_and_leave_the_allocator_settings_in_force() -> None:
    kept, huge_kib = probe(RuntimeSettings(allocator="glibc-no-trim", huge_pages=True))
    assert kept < 20
    assert huge_kib >= 32 << 10  # half of the 64 MiB at the least: the rest is alignment and what was split
    _, without = probe(NO_TRIM)
    assert without < huge_kib


def test_another_c_library_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_settings, "libc", lambda: ("musl", ""))
    assert "runs on musl" in (honoured(NO_TRIM) or "")
    assert "runs on musl" in (honoured(RuntimeSettings(huge_pages=True)) or "")
    assert honoured(RuntimeSettings(threads=2)) is None


@pytest.mark.parametrize(
    ("version", "pages", "reason"),
    [
        ("2.36", "madvise", None),
        ("2.35", "always", None),
        ("2.36", "never", "transparent huge pages are never"),
        ("2.36", None, "transparent huge pages are not there"),
        ("2.34", "madvise", "glibc 2.34 has no"),
    ],
)
def test_huge_pages_need_glibc_and_the_kernel(
    monkeypatch: pytest.MonkeyPatch, version: str, pages: str | None, reason: str | None
) -> None:
    monkeypatch.setattr(runtime_settings, "libc", lambda: ("glibc", version))
    monkeypatch.setattr(runtime_settings, "transparent_huge_pages", lambda: pages)
    found = honoured(RuntimeSettings(huge_pages=True))
    assert (found is None) == (reason is None)
    assert reason is None or reason in str(found)
