"""Where a pass of ours mends a planted cause, the finding names it; where it cannot, it says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.diagnosing.base import diagnose
from tests.optimizer.diagnosing.graphs.plants import IDENTIFIED, PLANTS, captured, evidence, rewrites

MENDED = {
    "many_embeddings": ("merge_embedding_tables", 12),
    "written_out_attention": ("fuse_attention", 1),
    "written_out_attention: masked": ("fuse_attention", 1),
    "written_out_norms": ("fuse_operations", 1),
    "written_out_norms: layer": ("fuse_operations", 1),
    "redundant_casts: of a weight": ("hoist_constants", 1),
    "redundant_permutes: of a weight": ("hoist_constants", 1),
}
UNTOUCHED = ("written_out_norms: by its standard deviation", "redundant_casts")  # an unbiased spread; digits are lost


@pytest.mark.parametrize("plant", [*MENDED, *UNTOUCHED])
def test_the_pass_that_rewrites_the_planted_places_is_the_first_step(plant: str, tmp_path: Path) -> None:
    one = PLANTS[IDENTIFIED.index(plant)]
    answer = captured(tmp_path, one.sick, one.inputs)
    finding = next(f for f in diagnose(evidence(answer, rewrites=rewrites(answer))) if f.rule == one.rule)
    if plant in UNTOUCHED:
        assert "pass" not in finding.evidence and finding.steps
        return
    name, places = MENDED[plant]
    assert finding.evidence["pass"] == name
    assert finding.evidence["places_by_pass"][name] == places
    assert f"the pass {name}" in finding.steps[0]
