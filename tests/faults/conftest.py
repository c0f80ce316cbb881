"""One installation for all tests of a process; each test starts the workers that it wants and leaves none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.stack import Stack


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("faults")
    for parent in (folder.parent, folder.parent.parent):
        parent.chmod(parent.stat().st_mode | 0o011)
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
