"""`mode`: each confinement in turn. `any_mode`: the first that is offered, where they cannot differ."""

from __future__ import annotations

import pytest

from optimizer.sandbox.choose import CONFINEMENTS
from optimizer.sandbox.launch import Mode
from tests.hostile.support import offered, usable


@pytest.fixture(params=CONFINEMENTS)
def mode(request: pytest.FixtureRequest) -> Mode:
    return usable(request.param)


@pytest.fixture
def any_mode() -> Mode:
    modes = offered()
    if not modes:
        pytest.skip("this machine offers no sandbox")
    return modes[0]
