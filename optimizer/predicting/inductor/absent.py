"""A GPU that is not there, as torch and Triton must see it to lower for it: properties, guard, driver; nothing runs.

What torch keeps per device type is set for the whole process and stays so: one target a process.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._dynamo import device_interface

from kernels.aot.devices import Device

_CUDA = 1  # c10::DeviceType::CUDA
_SLOTS = 64  # more than the interface of a device guard has methods

_installed: Device | None = None
_kept_alive: list[Any] = []


class OtherTarget(RuntimeError):
    """This process lowered for another target before."""


def properties(device: Device) -> Any:
    """As `torch.cuda.get_device_properties` would give them."""
    major, minor = capability(device)
    return SimpleNamespace(
        name=device.name,
        major=major,
        minor=minor,
        multi_processor_count=device.sms,
        regs_per_multiprocessor=device.registers_per_sm,
        max_threads_per_multi_processor=device.threads_per_sm,
        max_threads_per_block=device.threads_per_block,
        warp_size=device.warp_size,
        total_memory=device.memory_bytes,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=device.shared_bytes_per_block,
        shared_memory_per_multiprocessor=device.shared_bytes_per_sm,
        L2_cache_size=device.l2_bytes,
        gcnArchName="",
    )


def capability(device: Device) -> tuple[int, int]:
    number = int(device.architecture.removeprefix("sm_"))
    return number // 10, number % 10


@contextmanager
def absent_gpu(device: Device) -> Iterator[None]:
    """Within it, torch believes that the device is there, as number 0, and that Triton can compile for it."""
    _install(device)
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.runtime import triton_helpers

    with ExitStack() as stack:
        for name, value in {
            "get_device_capability": lambda *_: capability(device),
            "get_device_properties": lambda *_: properties(device),
            "current_device": _number_0,
            "device_count": lambda: 1,
            "_DeviceGuard": lambda *_: nullcontext(),
            "set_device": _nothing,
        }.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        # patterns are traced once with real tensors, and there are none on the device
        on_cpu = functools.partial(_on_cpu, joint_graph.lazy_init)
        stack.enter_context(mock.patch.object(joint_graph, "lazy_init", on_cpu))
        stack.enter_context(mock.patch.object(triton_helpers, "set_driver_to_gpu", _nothing))
        stack.enter_context(mock.patch.object(torch._C, "_cuda_getCurrentRawStream", _number_0, create=True))
        yield


def _nothing(*_: Any, **__: Any) -> None:
    """There is nothing to be set."""


def _number_0(*_: Any) -> int:
    """Of the device, of its stream."""
    return 0


def _on_cpu(lazy_init: Any, *_: Any, **__: Any) -> Any:
    return lazy_init(torch.device("cpu"))


def _install(device: Device) -> None:
    global _installed
    if _installed is not None:
        if _installed.target != device.target:
            raise OtherTarget(f"this process lowered for {_installed.target} before")
        return
    import triton
    from torch._inductor.runtime.hints import DeviceProperties

    _install_guard()
    list(device_interface.get_registered_device_interfaces())  # torch registers its own first, or it would do so later
    interface = _interface(device)
    for name in ("cuda", "cuda:0"):
        device_interface.register_interface_for_device(name, interface)
    triton.runtime.driver.set_active(_Driver(device, interface))
    DeviceProperties.create.cache_clear()
    _installed = device


def _install_guard() -> None:
    """Lets fake tensors be on CUDA in a torch that was built without it.

    torch has a fake guard for that and installs it where a guard counts no devices; a build without CUDA has no guard
    at all. So one that counts none is put there, and torch replaces it at once. Pure ctypes: no compiler is needed.
    """
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    registry = (ctypes.c_void_p * (_CUDA + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    if registry[_CUDA] is None:
        no_devices = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)(lambda _: 0)
        methods = (ctypes.c_void_p * _SLOTS)(*[ctypes.cast(no_devices, ctypes.c_void_p).value] * _SLOTS)
        guard = (ctypes.c_void_p * 1)(ctypes.addressof(methods))
        _kept_alive.extend((no_devices, methods, guard))
        registry[_CUDA] = ctypes.addressof(guard)
        torch._C._ensureCUDADeviceGuardSet()
        if registry[_CUDA] == ctypes.addressof(guard):
            registry[_CUDA] = None
            raise RuntimeError("torch did not install its fake CUDA guard")
    else:
        torch._C._ensureCUDADeviceGuardSet()


def _interface(device: Device) -> Any:
    """What Inductor asks of a device."""
    major, minor = capability(device)

    class OnDevice:
        def __init__(self, *_: Any) -> None: ...
        def __enter__(self) -> OnDevice:
            return self

        def __exit__(self, *_: Any) -> None: ...

    class Interface(device_interface.DeviceInterface):
        device = OnDevice
        Event, Stream = torch.Event, torch.Stream

        class Worker:
            set_device = staticmethod(lambda _: None)
            current_device = staticmethod(lambda: 0)
            get_device_properties = staticmethod(lambda *_: properties(device))

        set_device = synchronize = raise_if_triton_unavailable = staticmethod(lambda *_: None)
        current_device = staticmethod(lambda: 0)
        device_count = staticmethod(lambda: 1)
        is_available = is_triton_capable = is_bf16_supported = is_dtype_supported = staticmethod(lambda *_, **__: True)
        get_device_properties = staticmethod(lambda *_: properties(device))
        get_compute_capability = staticmethod(lambda *_: major * 10 + minor)
        get_raw_stream = exchange_device = maybe_exchange_device = memory_allocated = staticmethod(lambda *_: 0)

    return Interface


class _Driver:
    """Triton's, of a GPU that nothing is launched on."""

    def __init__(self, device: Device, interface: Any) -> None:
        self._device, self._interface = device, interface

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        major, minor = capability(self._device)
        return GPUTarget("cuda", major * 10 + minor, self._device.warp_size)

    def get_current_device(self) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        return lambda *_, **__: 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda")

    def get_device_interface(self) -> Any:
        return self._interface
