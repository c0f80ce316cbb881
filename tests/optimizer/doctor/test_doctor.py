"""The doctor: what it says of this machine, and what it would say of others."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from optimizer import doctor
from optimizer.doctor import confinement, engines, machine, toolchain
from optimizer.doctor.check import Check
from optimizer.sandbox.choose import Description

GIB = 1 << 30


def test_a_lack_without_its_cost_is_no_check() -> None:
    with pytest.raises(ValueError) as caught:
        Check("memory", "warn", "1 GiB")
    assert "memory" in str(caught.value)
    with pytest.raises(ValueError):
        Check("memory", "ok", "64 GiB", costs="nothing")


VERSIONS = [((3, 10, 9), "fail"), ((3, 11, 0), "ok"), ((3, 13, 5), "ok"), ((3, 14, 0), "fail")]


@pytest.mark.parametrize(("version", "state"), VERSIONS)
def test_only_pythons_with_wheels_will_do(version: tuple[int, ...], state: str) -> None:
    assert toolchain.python(version).state == state


def test_without_a_compiler_it_names_the_backends_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    check = toolchain.compiler()
    assert check.state == "warn"
    assert "aot_inductor" in check.costs
    assert "install g++" in check.remedy


def test_a_compiler_that_does_not_run_is_not_taken_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'cannot execute cc1plus' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    check = toolchain.compiler()
    assert check.state == "warn"
    assert "cc1plus" in check.found


def test_an_unwritable_cache_says_what_each_build_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    check = toolchain.compile_cache()
    assert check.state == "warn"
    assert "every build pays" in check.costs


def test_a_seeded_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if toolchain.cpp_compiler() is None:
        pytest.skip("there is no C++ compiler here")
    assert "not yet seeded" in toolchain.compile_cache().found
    (tmp_path / "fuseworks" / f"toolchain-{toolchain.toolchain_key()}").mkdir(parents=True)
    assert toolchain.compile_cache().state == "ok"


@pytest.mark.parametrize(("gib", "state"), [(2, "fail"), (4, "warn"), (16, "ok")])
def test_memory_is_judged_by_what_two_children_need(gib: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.machine, "memory_bytes", lambda: gib * GIB)
    assert machine.memory().state == state


@pytest.mark.parametrize(("gib", "state"), [(0.5, "fail"), (4, "warn"), (20, "ok")])
def test_disk_is_judged_where_the_files_would_go(
    gib: float, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def usage(path: Path) -> object:
        asked.append(path)
        return type("Usage", (), {"free": int(gib * GIB)})

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert machine.disk("cache disk", tmp_path / "not" / "yet").state == state
    assert asked == [tmp_path]


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ({"avx2", "fma"}, {"vector unit": "avx2"}),
        ({"avx2", "avx512f", "avx512_vnni"}, {"vector unit": "avx512f", "int8 unit": "avx512_vnni"}),
        (
            {"avx512f", "avx512_bf16", "amx_bf16", "amx_int8"},
            {"vector unit": "avx512f", "bfloat16 unit": "amx_bf16", "int8 unit": "amx_int8"},
        ),
        ({"asimd", "bf16", "asimddp"}, {"vector unit": "asimd", "bfloat16 unit": "bf16", "int8 unit": "asimddp"}),
        (set(), {}),
    ],
)
def test_units_go_by_the_kernels_names(flags: set[str], found: dict[str, str]) -> None:
    checks = list(machine.instruction_sets(flags))
    assert [check.name for check in checks] == ["vector unit", "bfloat16 unit", "int8 unit"]
    assert {check.name: check.found for check in checks if check.state == "ok"} == found


@pytest.mark.parametrize(("mode", "state"), [("always", "ok"), ("madvise", "ok"), ("never", "warn"), (None, "warn")])
def test_huge_pages_need_the_kernels_leave(mode: str | None, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.machine, "transparent_huge_pages", lambda: mode)
    assert machine.huge_pages().state == state


def test_without_a_sandbox_no_strangers_model_runs_and_the_reasons_are_given() -> None:
    reasons = {"bubblewrap": "no namespaces", "landlock": "version 1"}
    check = confinement.judge(Description(None, reasons, False, 1, "use a newer kernel"))
    assert check.state == "fail"
    assert "no namespaces" in check.found
    assert "version 1" in check.found
    assert check.remedy == "use a newer kernel"
    assert "--trusted" in check.costs


def test_the_second_best_sandbox_says_why_it_is_not_the_best() -> None:
    check = confinement.judge(Description("landlock", {"bubblewrap": "no namespaces", "landlock": None}, True, 6, None))
    assert check.state == "warn"
    assert "no namespaces" in check.found
    assert "uid of their own" in check.found


def test_the_best_sandbox_is_well() -> None:
    assert confinement.judge(Description("bubblewrap", {"bubblewrap": None}, False, 6, None)).state == "ok"


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("no_such_engine", "ModuleNotFoundError: No module named 'no_such_engine'"),
        ("raises", "OSError: libengine.so is missing"),
    ],
)
def test_an_engine_that_does_not_import_costs_what_it_is_for(
    module: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raises.py").write_text("raise OSError('libengine.so is missing')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(engines, "ENGINES", (engines.Engine(module, "fail", "nothing can be read"),))
    (check,) = engines.checks()
    assert (check.state, check.found, check.costs) == ("fail", reason, "nothing can be read")


def test_an_engine_is_asked_in_another_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "engine_of_this_test.py").write_text("__version__ = '1.2.3'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(engines, "ENGINES", (engines.Engine("engine_of_this_test", "warn", "little"),))
    (check,) = engines.checks()
    assert (check.state, check.found) == ("ok", "1.2.3")
    assert "engine_of_this_test" not in sys.modules


def test_asking_an_engine_leaves_nothing_in_the_users_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "noter.py").write_text("import pathlib\n(pathlib.Path.home() / 'identity').touch()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(engines, "ENGINES", (engines.Engine("noter", "warn", "little"),))
    (check,) = engines.checks()
    assert check.state == "ok"
    assert list(home.iterdir()) == []


@pytest.fixture
def gpu_files(tmp_path: Path) -> Path:
    """A made-up machine with one GPU, and a torch with CUDA in `torch`."""
    nodes = ("dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia0")
    for name in (*nodes, "usr/lib/libcuda.so.1", "torch/lib/libtorch_cuda.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    described = tmp_path / "proc/driver/nvidia/gpus/0000:18:00.0/information"
    described.parent.mkdir(parents=True)
    described.write_text("Model: NVIDIA H200\nDevice Minor: 0\n")
    return tmp_path


@pytest.mark.parametrize(
    ("gone", "found", "remedy"),
    [
        ("dev/nvidiactl", "this machine has no NVIDIA GPU (no /dev/nvidiactl)", "run it on a worker that has one"),
        ("dev/nvidia-uvm", "there is no /dev/nvidia-uvm", "load the module nvidia_uvm (nvidia-modprobe -u -c 0)"),
        (
            "torch/lib/libtorch_cuda.so",
            "0: NVIDIA H200, driver of an unknown version; this torch is built without CUDA",
            "install a torch with CUDA",
        ),
    ],
)
def test_what_a_gpu_lacks_is_named_with_its_remedy(gpu_files: Path, gone: str, found: str, remedy: str) -> None:
    (gpu_files / gone).unlink()
    check = machine.gpu(gpu_files, gpu_files / "torch")
    assert (check.state, check.found, check.remedy) == ("warn", found, remedy)
    assert check.costs == "candidates for cuda targets are not run here; cpu targets need none"


def test_a_gpu_with_all_that_it_needs_is_well(gpu_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    check = machine.gpu(gpu_files, gpu_files / "torch")
    assert (check.state, check.found) == ("ok", "0: NVIDIA H200, driver of an unknown version")


SOME = [Check("Python", "ok", "3.11.7"), Check("GPU", "warn", "none", "no cuda targets", "buy one")]
BAD = [*SOME, Check("sandbox", "fail", "none", "nothing runs")]


@pytest.mark.parametrize(("found", "code"), [(SOME, 0), (BAD, 3)])
def test_the_exit_code_says_whether_a_run_could_succeed(
    found: list[Check], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: found)
    assert doctor.main(["--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["ready"] == (code == 0)
    assert [check["name"] for check in document["checks"]] == [check.name for check in found]


def test_the_table_says_what_a_lack_costs_and_what_mends_it() -> None:
    text = "\n".join(doctor.lines(BAD))
    assert "costs: no cuda targets" in text
    assert "mend:  buy one" in text
    assert "No run can succeed here: 1 ok, 1 to know, 1 in the way." in text
    assert "A run can succeed here: 1 ok, 1 to know, 0 in the way." in "\n".join(doctor.lines(SOME))


def test_this_machine_is_examined_whole() -> None:
    names = [check.name for check in doctor.examine()]
    assert len(names) == len(set(names))
    assert {"Python", "C++ compiler", "sandbox", "torch", "openvino", "cores", "memory", "GPU"} <= set(names)
