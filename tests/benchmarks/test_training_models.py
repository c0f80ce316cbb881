"""The suite's training steps are captured, are what they say, and are changed by the passes that fit."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from optimizer.compiling.step.runtime import design_of
from optimizer.optimizing.step_passes import rewrite_step
from optimizer.spec import Mode
from tests.optimizer.capturing.uploads import Answer, capture

FOLDER = Path(__file__).parents[2] / "benchmarks" / "models"
# by hand from each file: 26 tables, 3 and 3 linear layers with bias; 2 embeddings, a norm, 2 layers of 6 linear layers
# and 2 norms, a linear layer, a norm and the output's bias
PARAMETERS = {"dlrm_training": 26 + 2 * 3 + 2 * 3, "bert_training": 2 + 2 + 2 * (2 * 6 + 2 * 2) + 2 + 2 + 1}
NAMES = list(PARAMETERS)


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def answer(name: str, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    return capture(FOLDER / f"{name}.py", tmp_path_factory.mktemp(name))


@pytest.mark.parametrize("name", NAMES)
def test_it_cites_its_source_and_says_what_is_not_from_there(name: str) -> None:
    text = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) or ""
    assert "et al." in text and "arXiv:" in text and "ours" in text


def test_it_is_captured_as_a_training_step(name: str, answer: Answer) -> None:
    assert answer.workload.mode is Mode.TRAINING
    assert len(design_of(answer.files["captured.step"])["parameters"]) == PARAMETERS[name]


def test_the_passes_that_fit_apply_and_the_others_say_why(name: str, answer: Answer, tmp_path: Path) -> None:
    rows, fused = rewrite_step(answer.files["captured.step"], None, tmp_path / "rewritten.step")
    assert len(fused.applied) == 1
    if name == "dlrm_training":  # a batch of 512 reads the nine smallest tables as a whole
        assert (len(rows.applied), len(rows.refused)) == (17, 9)
    else:
        assert rows.applied == []
        assert all(site.reason.startswith("adamw moves rows") for site in rows.refused)
