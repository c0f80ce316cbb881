"""Has the processor take denormal floats (below some 1e-38) as zero: computing with them takes up to 100 times as long.

For the calling thread, and the threads that it starts afterwards: call it before an engine starts its own. Copied into
a package as `denormals.py`: standard library only. x86-64 and 64-bit ARM under glibc; refuses elsewhere.
"""

from __future__ import annotations

import ctypes
import platform

# The C library's fenv_t: its size, and which 32 bits of it hold the flags.
X86_BYTES, MXCSR_AT, FLUSH_AND_ZERO = 32, 28, 0x8040
ARM_BYTES, FPCR_AT, FLUSH = 8, 0, 1 << 24
PLACES = {
    "x86_64": (X86_BYTES, MXCSR_AT, FLUSH_AND_ZERO),
    "aarch64": (ARM_BYTES, FPCR_AT, FLUSH),
}
LIBRARY = "libm.so.6"
SMALLEST = 5e-324


def unavailable() -> str | None:
    """Why it cannot be done here, or None."""
    if platform.machine() not in PLACES:
        return f"how a processor of kind {platform.machine()} flushes denormals is not known"
    if platform.libc_ver()[0] != "glibc":
        return "it is done by glibc's fesetenv, and this Python runs on another C library"
    return None


def flush(on: bool = True) -> bool:
    """Whether denormals are flushed in this thread afterwards."""
    if unavailable() is not None:
        return flushed()
    size, at, bits = PLACES[platform.machine()]
    library = ctypes.CDLL(LIBRARY)
    environment = ctypes.create_string_buffer(size)
    library.fegetenv(environment)
    flags = int.from_bytes(environment.raw[at : at + 4], "little")
    flags = flags | bits if on else flags & ~bits
    ctypes.memmove(ctypes.addressof(environment) + at, flags.to_bytes(4, "little"), 4)
    library.fesetenv(environment)
    return flushed()


def flushed() -> bool:
    """Asked of the processor, by computing with one."""
    return SMALLEST * float(_ONE[0]) == 0.0


_ONE = [1.0]  # in a list, so that the product is computed and not folded into a constant
