"""The allocator's counters (`profile_memory=True`): the peak of a GPU, and what was reserved and lay idle then."""

from __future__ import annotations

from typing import Any

GPU_DEVICE_TYPES = (1, 20)  # of c10: CUDA (and ROCm, which calls itself CUDA), PrivateUse1
MAX_DEVICES = 1024


class Memory:
    """`peaks`: (allocated, reserved) bytes at the moment of most allocated, by device."""

    def __init__(self) -> None:
        self.peaks: dict[int, tuple[int, int]] = {}
        self.reserved: dict[int, int] = {}

    def take(self, args: dict[str, Any]) -> None:
        device, allocated, reserved = args.get("Device Id"), args.get("Total Allocated"), args.get("Total Reserved")
        if args.get("Device Type") not in GPU_DEVICE_TYPES or type(device) is not int:
            return
        if type(allocated) is not int or type(reserved) is not int or not 0 <= allocated <= reserved < 1 << 50:
            return
        if device not in self.peaks and len(self.peaks) >= MAX_DEVICES:
            return
        if allocated > self.peaks.get(device, (-1, 0))[0]:
            self.peaks[device] = (allocated, reserved)
        self.reserved[device] = max(reserved, self.reserved.get(device, 0))
