"""Each example is captured with a dynamic batch; its workload is the one that it states."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from optimizer.spec import Workload
from tests.optimizer.capturing.uploads import Answer, capture

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
LARGEST = {"llama_decoder"}
LIGHT = [p for p in EXAMPLES if p.stem not in LARGEST]
HEAVY = [pytest.param(p, marks=pytest.mark.slow) for p in EXAMPLES if p.stem in LARGEST]
# by hand from the layers' sizes: embeddings, then linears with their biases
PARAMETERS = {
    "din": 71_000 * 32 + (256 * 128 + 128) + (128 * 64 + 64) + 65 + (224 * 200 + 200 + 1) + (200 * 80 + 80 + 1) + 81,
    "mmoe": 89_095 * 16
    + 8 * ((272 * 256 + 256) + (256 * 128 + 128))
    + 3 * (272 * 8 + 8)
    + 3 * ((128 * 64 + 64) + (64 + 1)),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    return {}


def captured(path: Path, answers: dict[str, Answer], tmp_path: Path) -> Answer:
    if path.stem not in answers:
        answers[path.stem] = capture(path, tmp_path / "s")
    return answers[path.stem]


def test_there_are_six_examples() -> None:
    names = {"bert_encoder", "dcn_v2", "din", "dlrm", "llama_decoder", "mmoe"}
    assert {path.stem for path in EXAMPLES} == names


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_says_what_it_is_and_cites_its_source(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert "et al." in text and any(str(year) in text for year in range(2016, 2024))


@pytest.mark.parametrize("path", [*LIGHT, *HEAVY], ids=lambda p: p.stem)
def test_an_example_is_captured_as_its_workload_says(path: Path, answers: dict[str, Answer], tmp_path: Path) -> None:
    answer = captured(path, answers, tmp_path)
    assert answer.inspection["dynamic"] == ["batch"]
    assert answer.inspection["notes"] == []
    namespace: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    stated = Workload.model_validate(namespace["get_workloads"]())  # type: ignore[operator]
    assert stated == answer.workload  # nothing was left to guess
    if path.stem in PARAMETERS:
        assert answer.inspection["parameters"] == PARAMETERS[path.stem]
    # the graph answers for a batch of one and for one that it was not traced with
    module = torch.export.load(str(answer.files["captured.pt2"])).module()
    torch.manual_seed(0)
    inputs = namespace["get_inputs"]()  # type: ignore[operator]
    with torch.no_grad():
        whole = module(*inputs)
        whole = whole if isinstance(whole, tuple) else (whole,)
        part = module(*[tensor[:1] for tensor in inputs])
        part = part if isinstance(part, tuple) else (part,)
    for a, b in zip(whole, part, strict=True):
        assert torch.allclose(a[:1], b, atol=1e-5) and a.std() > 1e-4


def test_the_seed_of_the_run_does_not_change_an_examples_weights(tmp_path: Path) -> None:
    from optimizer.capturing.torch_module import load_module

    path = next(p for p in EXAMPLES if p.stem == "mmoe")
    one, two = (load_module(path, "py", tmp_path, seed=seed).module.state_dict() for seed in (1, 2))
    assert all(torch.equal(one[name], two[name]) for name in one)
