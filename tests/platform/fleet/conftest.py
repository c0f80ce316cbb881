"""Every test of the fleet has a storage of its own, and leases of 60 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def installation(settings: Any, tmp_path: Path) -> None:
    settings.STORAGE = tmp_path / "storage"
    settings.LEASE_S, settings.CLAIM_WITHIN_S, settings.WORKER_TOKEN = 60, 120, "w" * 40
