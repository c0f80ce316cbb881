"""Makes a child's inputs readable for the uid that it drops to, without loosening anything on the host.

Bubblewrap binds a path whose parents are closed, Landlock does not; neither opens a file whose own mode is closed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from optimizer.errors import FuseworksError

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@-]{0,99}", re.ASCII)


def resolved_inputs(inputs: Mapping[str, Path]) -> dict[str, Path]:
    """Absolute, links followed. Raises FuseworksError (`sandbox:usage:input`)."""
    resolved = {}
    for name, path in inputs.items():
        real = Path(os.path.realpath(path))
        if not PLAIN_NAME.fullmatch(name):
            raise FuseworksError("sandbox:usage:input", name=name, text="its name is not plain")
        if not (real.is_file() or real.is_dir()):
            raise FuseworksError("sandbox:usage:input", name=name, text=f"{path} is neither a file nor a folder")
        resolved[name] = real
    return resolved


def readable(inputs: dict[str, Path], *, uid: int | None, parents_count: bool, folder: Path) -> dict[str, Path]:
    """The same inputs, those that `uid` could not read as copies in `folder`. None: this process's own uid reads."""
    if uid is None:
        return inputs
    staged = {}
    for name, path in inputs.items():
        if _open_to_all(path) and (not parents_count or reachable(path)):
            staged[name] = path
        else:
            staged[name] = _copy(path, folder / name)
    return staged


def reachable(path: Path) -> bool:
    """Whether every folder above `path` lets any user through."""
    return all(os.stat(parent).st_mode & stat.S_IXOTH for parent in path.parents)


def _open_to_all(path: Path) -> bool:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return True
    if not stat.S_ISDIR(mode):
        return bool(mode & stat.S_IROTH)
    enough = stat.S_IROTH | stat.S_IXOTH
    return mode & enough == enough and all(_open_to_all(path / entry) for entry in os.listdir(path))


def _copy(source: Path, target: Path) -> Path:
    folder = target.parent
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    if source.is_file():
        shutil.copyfile(source, target)
        target.chmod(0o644)
        return target
    shutil.copytree(source, target, symlinks=True, copy_function=shutil.copyfile)
    for parent, _, files in os.walk(target):
        os.chmod(parent, 0o755)
        for file in files:
            if not os.path.islink(os.path.join(parent, file)):
                os.chmod(os.path.join(parent, file), 0o644)
    return target
