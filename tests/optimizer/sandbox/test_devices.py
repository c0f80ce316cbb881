"""A child with a device: what bubblewrap and Landlock open for it, and that no other child gets any of it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from optimizer import devices
from optimizer.coordinator.context import RunContext
from optimizer.errors import FuseworksError
from optimizer.sandbox import ChildSpec, bubblewrap, launch
from optimizer.sandbox.limits import rlimits
from optimizer.sandbox.spec import Limits
from optimizer.spec import RuntimeSettings
from tests.optimizer.coordinator.support import context

NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
READS = ("/proc/driver/nvidia", "/sys/bus/pci", "/run/opengl-driver/lib")
ACCESS = devices.DeviceAccess(NODES, READS, {"CUDA_VISIBLE_DEVICES": "GPU-1"})


def arguments(**given: Any) -> list[str]:
    return bubblewrap.arguments(inputs={}, limits=Limits(), drops_uid=False, **{"devices": (), **given})


def binds(words: list[str], kind: str) -> list[tuple[str, str]]:
    return [(a, b) for word, a, b in zip(words, words[1:], words[2:], strict=False) if word == kind]


def test_bubblewrap_binds_the_nodes_over_its_own_dev_and_the_paths_read_only() -> None:
    words = arguments(devices=NODES, device_reads=READS)
    assert binds(words, "--dev-bind") == [(node, node) for node in NODES]
    assert words.index("--dev-bind") > words.index("--dev"), "its own /dev would hide what was bound before it"
    shown = binds(words, "--ro-bind")
    assert ("/sys/bus/pci", "/sys/bus/pci") in shown
    assert ("/run/opengl-driver/lib", "/run/opengl-driver/lib") in shown
    assert not any("proc/driver" in path for path, _ in shown), "the namespace's own /proc has it"
    assert {"/run", "/run/opengl-driver"} <= {b for a, b in itertools.pairwise(words) if a == "--dir"}


def test_without_devices_nothing_of_a_gpu_is_in_the_list() -> None:
    words = arguments()
    assert "--dev-bind" not in words
    assert not any("nvidia" in word for word in words)
    assert not any(path in ("/sys", "/sys/bus/pci", "/sys/devices") for path, _ in binds(words, "--ro-bind"))


def test_landlock_lets_the_child_control_the_nodes_and_read_the_paths(tmp_path: Path) -> None:
    existing = [tmp_path / "driver", tmp_path / "bus"]
    for path in existing:
        path.mkdir()
    spec = ChildSpec("c", devices=NODES, device_reads=(*map(str, existing), "/not/there"))
    starting = launch._Start(spec, "landlock", None, tmp_path, 0, {}, {}, [])
    rules = starting._landlock_rules(str(tmp_path / "scratch"))
    assert set(NODES) <= set(rules["devices"])
    assert {str(path) for path in existing} <= set(rules["read"])
    assert "/not/there" not in rules["read"], "a path that is not there cannot be opened for a rule"


def test_where_a_driver_maps_more_than_it_takes_the_watcher_alone_bounds_memory() -> None:
    import resource

    limited = {which for which, _ in rlimits(Limits())}
    with_device = {which for which, _ in rlimits(Limits(), has_device=True)}
    assert limited - with_device == {resource.RLIMIT_DATA}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ChildSpec]:
    specs: list[ChildSpec] = []

    class Child:
        sandbox = "bubblewrap"

    def start(spec: ChildSpec) -> Any:
        specs.append(spec)
        return Child()

    monkeypatch.setattr("optimizer.coordinator.context.start", start)
    return specs


def on(target: str, tmp_path: Path, *, trusted: bool = False) -> RunContext:
    run = context(tmp_path)
    run.spec = run.spec.model_copy(update={"target": target, "trusted": trusted})
    return run


def test_only_a_child_that_works_on_the_device_is_given_it(
    tmp_path: Path, started: list[ChildSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def access(target: str, visible: str | None, *, confined: bool) -> devices.DeviceAccess:
        asked.append((target, confined))
        return ACCESS

    monkeypatch.setattr(devices, "access", access)
    run = on("cuda:sm_90", tmp_path)
    run.child("capture")
    run.child("contender", None, RuntimeSettings(), on_device=True)
    capture, contender = started
    assert (capture.devices, capture.device_reads) == ((), ())
    assert "CUDA_VISIBLE_DEVICES" not in capture.environment
    assert (contender.devices, contender.device_reads) == (NODES, READS)
    assert contender.environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    on("cuda:sm_90", tmp_path, trusted=True).child("contender", on_device=True)
    assert asked == [("cuda:sm_90", True), ("cuda:sm_90", False)]


def test_a_run_for_a_cpu_asks_for_no_device(tmp_path: Path, started: list[ChildSpec]) -> None:
    on("cpu", tmp_path).child("contender", on_device=True)
    assert (started[0].devices, started[0].device_reads) == ((), ())


def test_a_target_whose_device_is_not_here_fails_before_anything_is_started(
    tmp_path: Path, started: list[ChildSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "why_none", lambda root: "this machine has no NVIDIA GPU: run it on a worker with one")
    with pytest.raises(FuseworksError) as caught:
        on("cuda:sm_90", tmp_path).child("contender", on_device=True)
    error = caught.value
    assert (error.id, error.side, error.place) == ("run:ours:no-device", "ours", "cuda:sm_90")
    assert error.message == "The target's device cannot be used here: this machine has no NVIDIA GPU."
    assert error.remedy == "run it on a worker with one; or choose the target cpu."
    assert started == []
