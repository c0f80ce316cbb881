"""Facts about a machine, read from planted files; and the fingerprint that says whether results may be compared."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from optimizer import machine

TWO_CORES = """processor\t: 0
model name\t: Example CPU @ 2.0GHz
flags\t\t: fpu sse2 avx2 fma avx512_bf16

processor\t: 1
model name\t: Example CPU @ 2.0GHz
flags\t\t: fpu sse2 avx2 fma
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\nCPU part\t: 0xd40\n"


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_only_what_every_core_has_counts_as_isa() -> None:
    assert machine.cpu_isa(TWO_CORES) == ["avx2", "fma", "fpu", "sse2"]
    assert machine.cpu_isa(ARM) == ["asimd", "bf16", "fp"]
    assert machine.cpu_isa("") == []


def test_the_processor_has_a_name_where_the_kernel_gives_one() -> None:
    assert machine.cpu_model(TWO_CORES) == "Example CPU @ 2.0GHz"
    assert machine.cpu_model(ARM) == "0xd40"


def test_two_threads_of_one_core_count_once(tmp_path: Path) -> None:
    siblings = {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}
    files = {f"devices/system/cpu/cpu{c}/topology/thread_siblings_list": f"{s}\n" for c, s in siblings.items()}
    system = plant(tmp_path, files)
    assert machine.physical_cores({0, 1, 2, 3}, system) == 2
    assert machine.physical_cores({0, 2}, system) == 1
    assert machine.physical_cores({7, 8}, system) == 2  # a kernel that does not say: each CPU is a core


@pytest.mark.parametrize(
    ("text", "chosen"), [("always [madvise] never\n", "madvise"), ("[always] madvise never\n", "always"), ("", None)]
)
def test_the_chosen_huge_page_mode_is_read(tmp_path: Path, text: str, chosen: str | None) -> None:
    system = plant(tmp_path, {"kernel/mm/transparent_hugepage/enabled": text})
    assert machine.transparent_huge_pages(system) == chosen


def test_a_machine_that_does_not_say_has_no_governor(tmp_path: Path) -> None:
    assert machine.governor(tmp_path) is None
    plant(tmp_path, {"devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n"})
    assert machine.governor(tmp_path) == "performance"


def test_a_control_groups_memory_is_what_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SYSTEM", plant(tmp_path, {"fs/cgroup/memory.max": "1048576\n"}))
    assert machine.memory_bytes() == 1 << 20
    plant(tmp_path, {"fs/cgroup/memory.max": "max\n"})
    assert machine.memory_bytes() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_the_fingerprint_is_of_canonical_json_and_changes_with_each_fact() -> None:
    text = '{"a":1,"b":{"c":"é","d":null}}'
    assert machine.fingerprint({"b": {"d": None, "c": "é"}, "a": 1}) == hashlib.sha256(text.encode()).hexdigest()
    fixed = machine.fixed_conditions(target="cpu", threads=2)
    assert machine.fingerprint(fixed) == machine.fingerprint(machine.fixed_conditions(target="cpu", threads=2))
    for change in (
        machine.fixed_conditions(target="cpu", threads=1),
        machine.fixed_conditions(target="cpu", threads=2, settings={"huge_pages": True}),
        machine.fixed_conditions(target="cpu", threads=2, libraries={"torch": "0"}),
    ):
        assert machine.fingerprint(change) != machine.fingerprint(fixed)


def test_what_varies_from_moment_to_moment_is_observed_and_not_fixed() -> None:
    observed, fixed = machine.observed_conditions(), machine.fixed_conditions(target="cpu", threads=1)
    assert not set(observed) & set(fixed)
    assert observed["cpus_allowed"] == len(os.sched_getaffinity(0))
    assert fixed["libraries"]["torch"].startswith("2.")


def test_libraries_that_are_not_installed_are_left_out() -> None:
    assert set(machine.library_versions(("numpy", "no-such-library"))) == {"numpy"}
