"""Fused operations: one file each in `kernels/ops/`. Importing this package imports neither torch nor triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.registry import Registry

if TYPE_CHECKING:
    from kernels.spec import Kernel

# transformers probes for a package of this name (Hugging Face's) and reads its version: without one it raises.
__version__ = "0.0.0"

KERNELS: Registry[Kernel] = Registry("kernel", "kernels.ops")


def load() -> None:
    """Defines every `torch.ops.fuseworks` operation. Call it before loading a `.pt2` that may hold one."""
    KERNELS.load()
