"""`mode`: each confinement in turn. `any_mode`: the first that is offered, where they cannot differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.sandbox.choose import CONFINEMENTS
from optimizer.sandbox.launch import Mode
from tests.hostile.support import offered, usable

HERE = Path(__file__).parent


@pytest.fixture(params=CONFINEMENTS)
def mode(request: pytest.FixtureRequest) -> Mode:
    return usable(request.param)


@pytest.fixture
def any_mode() -> Mode:
    modes = offered()
    if not modes:
        pytest.skip("this machine offers no sandbox")
    return modes[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.hostile)
