"""NVIDIA GPUs of this machine as its files show them: device nodes, driver, models. Standard library only.

`root` is `/`, or a made-up tree in tests. What a GPU can do (its compute capability) the files do not say: a child that
opens it checks that, and fails clearly where it is not the target's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
CONTROL, MEMORY = "dev/nvidiactl", "dev/nvidia-uvm"
OPTIONAL = ("dev/nvidia-uvm-tools",)
# What the driver's library reads: itself about the GPUs, and where their buses are.
READS = ("proc/driver/nvidia", "sys/bus/pci", "sys/class", "sys/devices", "sys/module")
# Beside the system's own folders, which a child sees anyway.
LIBRARY = "libcuda.so.1"
SYSTEM_LIBRARIES = ("usr/lib64", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64")
OTHER_LIBRARIES = ("usr/local/nvidia/lib64", "usr/lib/wsl/lib", "run/opengl-driver/lib", "run/nvidia/driver/usr/lib64")
VISIBLE = "CUDA_VISIBLE_DEVICES"
UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NoDevice(Exception):
    """Why no GPU can be used here, with the remedy behind a colon."""


@dataclass(frozen=True)
class Gpu:
    """`index`: its place in the order of the bus, which is what CUDA_VISIBLE_DEVICES counts; where the driver does not
    tell it, the node's own number."""

    index: int
    node: str
    model: str | None = None
    uuid: str | None = None


@dataclass(frozen=True)
class DeviceAccess:
    """What a child needs to use one GPU: nodes to open, paths to read, and its environment."""

    nodes: tuple[str, ...]
    reads: tuple[str, ...]
    environment: Mapping[str, str]


def gpus(root: Path = ROOT) -> list[Gpu]:
    """Those with a device node, by index."""
    told: dict[int, Gpu] = {}
    for place, information in enumerate(sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))):
        text = _read(information)
        minor, uuid = _field(text, "Device Minor"), _field(text, "GPU UUID")
        if minor is not None and minor.isdigit():
            known = uuid if uuid is not None and UUID.fullmatch(uuid) else None
            told[int(minor)] = Gpu(place, f"/dev/nvidia{minor}", _field(text, "Model"), known)
    nodes = [re.fullmatch(r"nvidia(\d+)", path.name) for path in (root / "dev").glob("nvidia*")]
    minors = [int(node.group(1)) for node in nodes if node]
    found = [told.get(minor, Gpu(minor, f"/dev/nvidia{minor}")) for minor in minors]
    return sorted(found, key=lambda gpu: gpu.index)


def driver_version(root: Path = ROOT) -> str | None:
    found = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", _read(root / "proc/driver/nvidia/version"))
    return found.group(1) if found else None


def why_none(root: Path = ROOT) -> str | None:
    """Why CUDA cannot work here, with the remedy; None where all of its files are there."""
    if not (root / CONTROL).exists():
        return "this machine has no NVIDIA GPU (no /dev/nvidiactl): run it on a worker that has one"
    if not gpus(root):
        return "there is no /dev/nvidia0 beside /dev/nvidiactl: give the container a GPU (--gpus all)"
    if not (root / MEMORY).exists():
        return "there is no /dev/nvidia-uvm: load the module nvidia_uvm (nvidia-modprobe -u -c 0)"
    if library_folder(root) is None:
        return f"{LIBRARY} is not installed: install the driver's user-space libraries"
    return None


def library_folder(root: Path = ROOT) -> str | None:
    """Where the driver's library lies, as the child sees it."""
    for folder in (*SYSTEM_LIBRARIES, *OTHER_LIBRARIES):
        if (root / folder / LIBRARY).exists():
            return f"/{folder}"
    return None


def chosen(available: Sequence[Gpu], visible: str | None) -> Gpu:
    """The GPU that a run uses: the one that CUDA_VISIBLE_DEVICES names, else the first. Raises NoDevice."""
    if not available:
        raise NoDevice("this machine has no NVIDIA GPU: run it on a worker that has one")
    if visible is None or visible == "":
        return available[0]
    if not visible.isdigit():
        raise NoDevice(f"{VISIBLE} is {visible!r}: a run uses one GPU, named by its number")
    found = next((gpu for gpu in available if gpu.index == int(visible)), None)
    if found is None:
        known = ", ".join(str(gpu.index) for gpu in available)
        raise NoDevice(f"{VISIBLE} is {visible}, and this machine has {known}: name one of these")
    return found


def access(target: str, visible: str | None, root: Path = ROOT, *, confined: bool = True) -> DeviceAccess | None:
    """What a child of a run for `target` needs; None for a CPU. Raises NoDevice.

    Only the chosen GPU's node is given, so that a confined child cannot use the others whatever its environment says.
    The driver counts those that it can open: there the one and only is number 0, where its UUID is not known.
    """
    kind = target.partition(":")[0]
    if kind == "cpu":
        return None
    if kind != "cuda":
        raise NoDevice(f"no device of {target} can be given to a sandboxed child yet: use cpu or cuda:sm_NN")
    reason = why_none(root)
    if reason is not None:
        raise NoDevice(reason)
    gpu = chosen(gpus(root), visible)
    folder = library_folder(root)
    assert folder is not None
    nodes = [f"/{CONTROL}", gpu.node, f"/{MEMORY}", *(f"/{name}" for name in OPTIONAL if (root / name).exists())]
    outside = [folder] if folder.strip("/") in OTHER_LIBRARIES else []
    reads = [*(f"/{name}" for name in READS if (root / name).exists()), *outside]
    named = gpu.uuid or ("0" if confined else str(gpu.index))
    environment = {VISIBLE: named, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if outside:
        environment["LD_LIBRARY_PATH"] = folder
    return DeviceAccess(tuple(nodes), tuple(reads), environment)


def visible_here() -> str | None:
    """Whoever starts a run says which GPU is its own, by CUDA's own variable; a worker's lock is on the same one."""
    return os.environ.get(VISIBLE)


def conditions(target: str, visible: str | None, root: Path = ROOT) -> dict[str, str | None]:
    """What of the GPU must be equal for two results to be compared; without a model where the GPU is not here."""
    if target.partition(":")[0] != "cuda":
        return {}
    try:
        model = chosen(gpus(root), visible).model
    except NoDevice:
        model = None
    return {"gpu": model, "gpu_driver": driver_version(root)}


def _field(text: str, name: str) -> str | None:
    found = re.search(rf"^{name}\s*:\s*(.+?)\s*$", text, re.MULTILINE)
    return found.group(1) if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
