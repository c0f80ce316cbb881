"""Landlock: the kernel's own allow-list of paths, for machines where namespaces are forbidden (most containers).

Standard library only: the shim imports it without any package around it. It does not hide that a file exists, nor
guard its attributes or signals before version 6: seccomp and the dropped uid do.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
ASK_VERSION = 1
PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
ALL_OF_V1 = (1 << 13) - 1
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
READING = EXECUTE | READ_FILE | READ_DIR
BIND_AND_CONNECT_TCP = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3

OLDEST = 3  # before it, opening with O_TRUNC empties files that may only be read
SCOPES_SIGNALS = 6

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The kernel's Landlock version; 0 where there is none or it is switched off."""
    return max(0, int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION)))


def restrict(*, read: Iterable[str], write: Iterable[str], devices: Iterable[str]) -> None:
    """Confines the calling thread and its future children for good. Every path must exist; links are followed."""
    known = version()
    handled = ALL_OF_V1 | (REFER if known >= 2 else 0) | (TRUNCATE if known >= 3 else 0)
    handled |= IOCTL_DEVICE if known >= 5 else 0
    network = BIND_AND_CONNECT_TCP if known >= 4 else 0
    scoped = ABSTRACT_SOCKETS_AND_SIGNALS if known >= SCOPES_SIGNALS else 0
    fields = (handled, network, scoped)[: 3 if scoped else 2 if network else 1]
    attribute = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _call(CREATE_RULESET, attribute, ctypes.c_size_t(len(attribute)), 0)
    try:
        for paths, rights in (
            (read, READING),
            (write, handled & ~(1 << 6) & ~(1 << 11)),  # neither block nor character devices
            (devices, READ_FILE | WRITE_FILE | IOCTL_DEVICE),
        ):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        _call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):
            rights &= FILE_RIGHTS
        _call(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock call {number}: {os.strerror(code)}")
    return result
