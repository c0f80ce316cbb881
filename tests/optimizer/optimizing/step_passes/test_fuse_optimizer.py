"""How the optimizer's update is applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optimizer.compiling.step.runtime import design_of
from optimizer.errors import FuseworksError
from optimizer.optimizing.step_passes import rewrite_step
from tests.optimizer.compiling.step.steps import captured, contender


@pytest.mark.parametrize(("options", "update"), [({}, "fused"), ({"implementation": "foreach"}, "foreach")])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_it_says_how_the_update_is_applied_and_torch_takes_it(
    tmp_path: Path, optimizer: str, options: dict[str, Any], update: str
) -> None:
    answer = captured(tmp_path, optimizer)
    out = tmp_path / "rewritten.step"
    (found,) = rewrite_step(answer.files["captured.step"], [{"pass": "fuse_optimizer", "options": options}], out)
    assert design_of(out)["update"] == update
    assert [site.reason for site in found.applied] == [f"{optimizer}: the update of 4 parameters is {update}"]
    defaults = contender(out, answer.workload).step.optimizer.defaults  # type: ignore[union-attr]
    assert defaults[update] is True


def test_behind_the_rows_only_the_dense_parameters_are_left_to_fuse(tmp_path: Path) -> None:
    out = tmp_path / "rewritten.step"
    found = rewrite_step(captured(tmp_path).files["captured.step"], None, out)
    assert [r.pass_ for r in found] == ["update_embedding_rows", "fuse_optimizer"]
    assert found[1].applied[0].reason == "sgd: the update of 2 parameters is fused"


def test_an_unknown_form_of_update_is_refused(tmp_path: Path) -> None:
    passes = [{"pass": "fuse_optimizer", "options": {"implementation": "loop"}}]
    with pytest.raises(FuseworksError) as caught:
        rewrite_step(captured(tmp_path).files["captured.step"], passes, tmp_path / "out.step")
    assert caught.value.id == "optimizing:user:bad-options"
