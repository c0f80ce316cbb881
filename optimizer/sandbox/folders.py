"""The folder of a child on the host: made, and taken away whatever a model left in it.

It holds the scratch where that is no tmpfs, and copies of inputs. A coordinator that was killed leaves its folders
behind: each is locked by its process, so that a later one finds those that nobody holds any more.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

PREFIX = "fuseworks-"
LOCK = "in-use"
OLD_S = 300.0


def own_folder() -> tuple[Path, int]:
    """A new folder, locked for as long as the descriptor is open. Others may pass through it, not look into it."""
    _sweep_once()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock_fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)
    folder.chmod(0o711)
    return folder, lock_fd


def remove_folder(folder: Path) -> None:
    """`rm` copes with any depth, Python's rmtree recurses on the stack."""
    if subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False).returncode:
        subprocess.run(["chmod", "-R", "u+rwX", "--", folder], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", "--", folder], check=True)
    if os.path.lexists(folder):
        raise OSError(f"{folder} could not be removed")


@cache
def _sweep_once() -> None:
    sweep(Path(tempfile.gettempdir()))


def sweep(parent: Path) -> None:
    """Takes away folders of this user that are old and that no process holds."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        try:
            if lock.lstat().st_uid != os.geteuid() or time.time() - lock.lstat().st_mtime < OLD_S:
                continue
            fd = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            continue  # another one's, or just being removed
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # in use
        else:
            remove_folder(lock.parent)
        finally:
            os.close(fd)
