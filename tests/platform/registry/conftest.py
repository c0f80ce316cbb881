"""Every test of the registry has a storage of its own; those of pages share a team, its maintainer and a version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from fuseworks.accounts.models import Team
from fuseworks.registry.models import ModelVersion
from tests.platform import factories
from tests.platform.registry.helpers import INSPECTION, SOURCE


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Path) -> Path:
    settings.STORAGE = tmp_path / "storage"
    folder: Path = settings.STORAGE
    return folder


@pytest.fixture
def team() -> Team:
    return factories.make_team("ads-ranking", name="Ads ranking")


@pytest.fixture
def client(team: Team) -> Client:
    return factories.client_for(factories.make_member(team, "maintainer"))


@pytest.fixture
def version(team: Team) -> ModelVersion:
    version = factories.make_version(factories.make_model(team, "DIN"), data=SOURCE)
    version.inspection = INSPECTION
    version.save()
    return version
