"""Every test of runs has a storage of its own; those of attempts count by leases of 60 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def storage(storage: Path) -> Path:
    return storage


@pytest.fixture
def leases(settings: Any) -> None:
    settings.LEASE_S, settings.CLAIM_WITHIN_S, settings.WORKER_API_URL = 60, 120, "http://site.example/"
