"""As whom a child runs. Root drops to a numeric uid of the child's own: RLIMIT_NPROC does not bind uid 0, and
`kill -1` reaches whatever has the same uid. An ordinary user keeps its own."""

from __future__ import annotations

import os
import pwd
import random

FIRST_UID = 2_000_000_000
WINDOW = 60_000


def _mapped_uids() -> int:
    """How many uids this user namespace maps from 0 on (2**32 - 1 outside of any container)."""
    with open("/proc/self/uid_map") as file:
        for line in file:
            inside, _, length = (int(word) for word in line.split())
            if inside == 0:
                return length
    return 0


def _in_use() -> set[int]:
    used = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                used.add(os.stat(f"/proc/{entry}").st_uid)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    return used


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def uid_to_drop_to() -> int | None:
    """A uid without a name, file or process; None when this process is not root. Raises RuntimeError."""
    if os.geteuid() != 0:
        return None
    mapped = _mapped_uids()
    first, window = (FIRST_UID, WINDOW) if mapped > FIRST_UID + WINDOW else (mapped - 4098, 4096)
    if first < 1000:
        raise RuntimeError(f"this user namespace maps {mapped} uids only, so that root has none to drop to")
    used = _in_use()
    for _ in range(1000):
        uid = first + random.randrange(window)
        if uid not in used and uid not in (65534, 65535) and not _has_name(uid):
            return uid
    raise RuntimeError("no unused uid to drop to was found")
