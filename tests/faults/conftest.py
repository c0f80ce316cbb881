"""One installation for all tests of a process; each test starts the workers that it wants and leaves none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.stack import Stack


@contextmanager
def own_folder() -> Iterator[Path]:
    """Not pytest's: as root PostgreSQL runs as nobody, and every other pytest makes root's folder private again."""
    with tempfile.TemporaryDirectory(prefix="fuseworks-tests-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(scope="session")
def installation() -> Iterator[Stack]:
    with own_folder() as folder:
        stack = Stack(folder, lease_s=5, claim_within_s=6)
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()


@pytest.fixture
def stack(installation: Stack) -> Iterator[Stack]:
    before = list(installation.processes)
    yield installation
    started = [process for process in installation.processes if process not in before]
    lasting = (installation.web, installation.dispatcher)
    for process in started:
        if process not in lasting:
            process.force_end()
            installation.processes.remove(process)
    installation.broker().flushall()
