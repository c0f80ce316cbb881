"""What all tests share: the Django settings, hypothesis' profile, and no child process left behind."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
import setuptools  # noqa: F401 -- before any test imports the standard library's distutils: it refuses afterwards
from hypothesis import settings

# The machine is shared while tests run: a deadline per example would measure the neighbours.
settings.register_profile("fuseworks", deadline=None, print_blob=True)
settings.load_profile("fuseworks")

OURS = ("optimizer.children", "optimizer/sandbox", "bwrap")


@pytest.fixture(scope="session", autouse=True)
def no_child_is_left() -> Iterator[None]:
    """A sandboxed child that outlives its test is a fault of Fuseworks; it is ended and named."""
    yield
    left = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            if any(word in command for word in OURS):
                process.kill()
                left.append(command[:200])
        except psutil.NoSuchProcess:
            continue
    assert not left, f"children outlived the tests: {left}"
