"""Every test of the results has a storage of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Path) -> Path:
    settings.STORAGE = tmp_path / "storage"
    folder: Path = settings.STORAGE
    return folder
