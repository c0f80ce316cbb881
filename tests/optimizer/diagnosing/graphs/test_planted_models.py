"""A planted cause is found in the captured graph, first and at its line; its healthy twin raises nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.diagnosing.base import RULES, diagnose
from optimizer.diagnosing.graphs.graph_rule import GraphRule
from tests.optimizer.capturing.uploads import line_of
from tests.optimizer.diagnosing.graphs.plants import IDENTIFIED, OTHER_INPUTS, PLANTS, Plant, captured, evidence


def test_every_rule_on_graphs_has_a_plant() -> None:
    assert {rule.name for rule in RULES if isinstance(rule, GraphRule)} == {plant.rule for plant in PLANTS}


@pytest.mark.parametrize("plant", PLANTS, ids=IDENTIFIED)
def test_a_planted_cause_comes_first_with_its_line_and_its_remedy(plant: Plant, tmp_path: Path) -> None:
    found = diagnose(evidence(captured(tmp_path, plant.sick, plant.inputs)))
    assert [finding.rule for finding in found] == [plant.rule]
    line = f"model.py:{line_of(tmp_path / 'model.py', plant.line)}"
    assert line in found[0].evidence["sources"] and line in found[0].title
    assert found[0].evidence["nodes"] and found[0].steps and found[0].remedy
    assert found[0].threshold.endswith(")")  # the source stands in brackets
    assert found[0].gain is None, "without a profile no gain is predicted"


@pytest.mark.parametrize("plant", PLANTS, ids=IDENTIFIED)
def test_a_healthy_twin_raises_nothing(plant: Plant, tmp_path: Path) -> None:
    answer = captured(tmp_path, plant.twin, OTHER_INPUTS.get(plant.name, plant.inputs))
    assert diagnose(evidence(answer)) == []
