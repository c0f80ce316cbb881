"""What a worker's optimizer can do is asked before the first run, and a worker without one does not start."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from workers.manifest import NoOptimizer, ask
from workers.settings import Settings


def test_the_answer_of_the_optimizer_is_handed_on(settings: Settings) -> None:
    assert ask(settings) == {"passes": [], "target": "cpu"}


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; sys.exit('no module named torch')", "no module named torch"),
        ("print('hello')", "printed no JSON"),
    ],
)
def test_an_optimizer_that_does_not_work_is_told_with_its_own_words(
    settings: Settings, program: str, told: str
) -> None:
    with pytest.raises(NoOptimizer, match=told):
        ask(replace(settings, coordinator=(sys.executable, "-S", "-c", program)))


def test_an_optimizer_that_is_not_there_is_told(settings: Settings) -> None:
    with pytest.raises(NoOptimizer, match="/no/such/program"):
        ask(replace(settings, coordinator=("/no/such/program",)))
