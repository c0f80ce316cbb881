"""The private folder of one attempt, and the removal of those that a killed worker left behind.

Others may pass through it, not look into it: a sandboxed child runs under a uid of its own and must reach its inputs.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optimizer.sandbox.folders import remove_folder

PREFIX, IN_USE, GATE = "run-", "in-use", ".gate"
PASS_THROUGH = 0o711
log = logging.getLogger(__name__)


class NotOurs(OSError):
    """The folder belongs to somebody else: what is put there could be read or replaced."""


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A new folder, removed at the end. Raises OSError."""
    with _gate(root):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        lock = os.open(folder / IN_USE, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        folder.chmod(PASS_THROUGH)
        yield folder
    finally:
        try:
            remove_folder(folder)
        except OSError as error:  # the run's answer does not depend on it, and the next start sweeps
            log.error("%s could not be removed: %s", folder, error)
        finally:
            os.close(lock)


def sweep(root: Path) -> int:
    """Removes what no process holds any more; the number of folders. A folder that resists is logged and left."""
    removed = 0
    with _gate(root):
        for folder in root.glob(f"{PREFIX}*"):
            try:
                lock = os.open(folder / IN_USE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except OSError as error:
                log.warning("%s is left as it is: %s", folder, error)
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(folder)
                removed += 1
            except BlockingIOError:
                continue  # in use
            except OSError as error:
                log.warning("%s could not be removed: %s", folder, error)
            finally:
                os.close(lock)
    return removed


@contextmanager
def _gate(root: Path) -> Iterator[None]:
    """Nobody sweeps between the making of a folder and the locking of it."""
    root.mkdir(parents=True, exist_ok=True)
    facts = root.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise NotOurs(f"{root} is no folder of this user: set FUSEWORKS_WORKER_SCRATCH to one")
    root.chmod(PASS_THROUGH)
    gate = os.open(root / GATE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield
    finally:
        os.close(gate)
