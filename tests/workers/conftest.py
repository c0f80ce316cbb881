"""A platform of one run, and the settings of a worker whose coordinator is a stand-in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workers.fake_platform import Platform
from workers.settings import Settings

FAKE = Path(__file__).with_name("fake_coordinator.py")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        redis_url="redis://127.0.0.1:1/0",
        api="http://127.0.0.1:1",
        token="w" * 32,
        name="test worker",
        host="host",
        target="cpu",
        coordinator=(sys.executable, "-S", str(FAKE)),
        scratch=tmp_path / "scratch",
        device_locks=tmp_path / "devices",
    )


@pytest.fixture
def platform() -> Iterator[Callable[..., Platform]]:
    started: list[Platform] = []

    def start(**fields: Any) -> Platform:
        started.append(Platform(**fields))
        return started[-1]

    yield start
    for one in started:
        one.close()
