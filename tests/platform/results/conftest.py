"""Every test of the results has a storage of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def storage(storage: Path) -> Path:
    return storage
