"""GPUs as a made-up tree of files shows them: which there are, what a child is given, and why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer import devices, machine
from optimizer.devices import Gpu, NoDevice

UUIDS = ("GPU-11111111-2222-3333-4444-555555555555", "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12\n"
OPEN_VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build  (x)\n"


def information(minor: int, uuid: str) -> str:
    return (
        f"Model: \t\t NVIDIA H{100 + 100 * minor}\nIRQ:   \t\t 68\nGPU UUID: \t {uuid}\nVideo BIOS: \t 96.00\n"
        f"Bus Type: \t PCIe\nDevice Minor: \t {minor}\n"
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two GPUs whose nodes are numbered against the order of the bus."""
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidia-modeset"):
        touch(tmp_path / "dev" / name)
    for bus, minor, uuid in (("0000:18:00.0", 1, UUIDS[0]), ("0000:5a:00.0", 0, UUIDS[1])):
        touch(tmp_path / "proc/driver/nvidia/gpus" / bus / "information", information(minor, uuid))
    touch(tmp_path / "proc/driver/nvidia/version", VERSION)
    touch(tmp_path / "usr/lib/x86_64-linux-gnu/libcuda.so.1")
    (tmp_path / "sys/bus/pci").mkdir(parents=True)
    (tmp_path / "sys/devices").mkdir()
    return tmp_path


def touch(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_gpus_are_counted_in_the_order_of_the_bus(root: Path) -> None:
    assert devices.gpus(root) == [
        Gpu(0, "/dev/nvidia1", "NVIDIA H200", UUIDS[0]),
        Gpu(1, "/dev/nvidia0", "NVIDIA H100", UUIDS[1]),
    ]


def test_a_gpu_without_a_node_is_not_there_and_one_that_nobody_describes_keeps_its_own_number(root: Path) -> None:
    (root / "dev/nvidia1").unlink()
    touch(root / "dev/nvidia7")
    assert devices.gpus(root) == [Gpu(1, "/dev/nvidia0", "NVIDIA H100", UUIDS[1]), Gpu(7, "/dev/nvidia7")]


def test_a_gpu_that_was_never_opened_has_no_uuid_yet(root: Path) -> None:
    unknown = information(0, "GPU-????????-????-????-????-????????????")
    touch(root / "proc/driver/nvidia/gpus/0000:5a:00.0/information", unknown)
    assert devices.gpus(root)[1].uuid is None


@pytest.mark.parametrize(("text", "version"), [(VERSION, "550.54.15"), (OPEN_VERSION, "575.57.08"), ("", None)])
def test_the_drivers_version_is_read_in_both_its_forms(root: Path, text: str, version: str | None) -> None:
    touch(root / "proc/driver/nvidia/version", text)
    assert devices.driver_version(root) == version


def test_a_child_is_given_its_own_gpu_and_no_other(root: Path) -> None:
    access = devices.access("cuda:sm_90", None, root)
    assert access is not None
    assert access.nodes == ("/dev/nvidiactl", "/dev/nvidia1", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    assert access.reads == ("/proc/driver/nvidia", "/sys/bus/pci", "/sys/devices")
    assert access.environment == {"CUDA_VISIBLE_DEVICES": UUIDS[0], "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    second = devices.access("cuda:sm_90", "1", root)
    assert second is not None and second.nodes[1] == "/dev/nvidia0"
    assert second.environment["CUDA_VISIBLE_DEVICES"] == UUIDS[1]


@pytest.mark.parametrize(("confined", "named"), [(True, "0"), (False, "1")])
def test_without_a_uuid_the_only_gpu_of_a_confined_child_is_number_0(root: Path, confined: bool, named: str) -> None:
    touch(root / "proc/driver/nvidia/gpus/0000:5a:00.0/information", information(0, "unknown"))
    access = devices.access("cuda:sm_90", "1", root, confined=confined)
    assert access is not None and access.environment["CUDA_VISIBLE_DEVICES"] == named


def test_a_driver_library_outside_of_the_system_is_shown_and_found(root: Path) -> None:
    (root / "usr/lib/x86_64-linux-gnu/libcuda.so.1").unlink()
    touch(root / "run/opengl-driver/lib/libcuda.so.1")
    access = devices.access("cuda:sm_90", None, root)
    assert access is not None
    assert access.reads[-1] == access.environment["LD_LIBRARY_PATH"] == "/run/opengl-driver/lib"


def test_a_cpu_needs_nothing(tmp_path: Path) -> None:
    assert devices.access("cpu", "0", tmp_path) is None


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        (["dev/nvidiactl"], "this machine has no NVIDIA GPU (no /dev/nvidiactl): run it on a worker that has one"),
        (["dev/nvidia0", "dev/nvidia1"], "there is no /dev/nvidia0 beside /dev/nvidiactl: give the container"),
        (["dev/nvidia-uvm"], "there is no /dev/nvidia-uvm: load the module nvidia_uvm"),
        (["usr/lib/x86_64-linux-gnu/libcuda.so.1"], "libcuda.so.1 is not installed: install the driver's"),
    ],
)
def test_what_is_missing_is_named_with_its_remedy(root: Path, gone: list[str], reason: str) -> None:
    for name in gone:
        (root / name).unlink()
    assert str(devices.why_none(root)).startswith(reason)
    with pytest.raises(NoDevice) as caught:
        devices.access("cuda:sm_90", None, root)
    assert str(caught.value) == devices.why_none(root)


@pytest.mark.parametrize(
    ("visible", "reason"),
    [("2", "CUDA_VISIBLE_DEVICES is 2, and this machine has 0, 1"), ("0,1", "a run uses one GPU"), ("-1", "one GPU")],
)
def test_a_gpu_that_is_not_one_is_refused(root: Path, visible: str, reason: str) -> None:
    with pytest.raises(NoDevice, match=reason.replace("(", "\\(")):
        devices.access("cuda:sm_90", visible, root)


def test_no_other_kind_of_device_is_claimed_to_work(root: Path) -> None:
    with pytest.raises(NoDevice, match="no device of rocm:gfx942 can be given"):
        devices.access("rocm:gfx942", None, root)


def test_results_of_two_gpus_or_drivers_are_not_comparable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices.conditions("cuda:sm_90", None, root) == {"gpu": "NVIDIA H200", "gpu_driver": "550.54.15"}
    assert devices.conditions("cuda:sm_90", "1", root)["gpu"] == "NVIDIA H100"
    assert devices.conditions("cpu", None, root) == {}

    fingerprints = set()
    for found in ({"gpu": "NVIDIA H100"}, {"gpu": "NVIDIA H200"}):
        monkeypatch.setattr(devices, "conditions", lambda target, visible, found=found: found)
        fingerprints.add(machine.fingerprint(machine.fixed_conditions(target="cuda:sm_90", threads=1)))
    assert len(fingerprints) == 2
