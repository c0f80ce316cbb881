"""What most tests of the platform begin with: a storage, a team, a member, a version of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import Actor
from fuseworks.registry.models import ModelVersion
from tests.platform import factories


@pytest.fixture
def storage(settings: Any, tmp_path: Path) -> Path:
    settings.STORAGE = tmp_path / "storage"
    folder: Path = settings.STORAGE
    return folder


@pytest.fixture
def team() -> Team:
    return factories.make_team("ads-ranking")


@pytest.fixture
def actor(team: Team) -> Actor:
    """A member."""
    return Actor(factories.make_member(team))


@pytest.fixture
def version(team: Team) -> ModelVersion:
    return factories.make_version(factories.make_model(team, "DIN"))
