"""The suite's models are captured with a dynamic batch, are what they say, and survive every pass."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from kernels import KERNELS
from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from optimizer.result import Rewrite
from optimizer.spec import Workload
from tests.optimizer.capturing.uploads import Answer, capture
from tests.optimizer.optimizing.support import assert_equal_results

FOLDER = Path(__file__).parents[2] / "benchmarks" / "models"

# by hand from the layers of each file
OPERATIONS = {
    "conformer": {
        "conv2d": 2, "conv1d": 3 * 3, "batch_norm": 3, "glu": 3, "softmax": 3, "layer_norm": 3 * 5,
        "silu": 3 * 3, "linear": 1 + 3 * (2 + 5 + 2) + 1, "log_softmax": 1,
    },
    "dcn_low_rank": {"embedding": 26, "linear": 3 + 3 * 2 + 3 + 1, "relu": 3 + 3, "sigmoid": 1},
    "deepfm": {"embedding": 2 * 26, "linear": 1 + 3 + 1, "relu": 3, "pow": 1, "sigmoid": 1},
    "hstu": {"embedding": 3, "einsum": 3 * 2, "silu": 3 * 2, "layer_norm": 3 * 2, "matmul": 3, "index_select": 3,
             "softmax": 0, "bmm": 1},
    "rankmixer": {"embedding": 48, "linear": 1 + 16 + 2, "einsum": 2 * 2, "gelu": 2, "layer_norm": 2 * 2,
                  "softmax": 0, "sigmoid": 2},
    "resnet50": {"conv2d": 1 + 16 * 3 + 4, "batch_norm": 53, "max_pool2d": 1, "adaptive_avg_pool2d": 1, "linear": 1},
    # 6 residual blocks down, 2 in the middle, 9 up; attention in 2, 1 and 3 of them
    "unet": {"group_norm": 17 * 2 + 6 + 1, "silu": 17 * 3 + 2, "softmax": 6, "einsum": 2 * 6, "linear": 17 + 2,
             "upsample_nearest2d": 2},
    "vit": {"conv2d": 1, "softmax": 8, "layer_norm": 8 * 2 + 1, "gelu": 8, "linear": 8 * 4 + 1},
}  # fmt: skip
# what some pass must find in each, whatever else it finds: sites by hand
APPLIED = {
    "conformer": {"fold_batch_norm": 3, "merge_parallel_linears": 3 * 3},
    "dcn_low_rank": {"merge_embedding_tables": 26},
    "deepfm": {"merge_embedding_tables": 2 * 26},
    "hstu": {"eliminate_common_subexpressions": 2},
    "rankmixer": {"merge_embedding_tables": 48, "fuse_operations": 2 * 2},
    "resnet50": {"fold_batch_norm": 53},
    "unet": {"fuse_attention": 6, "merge_parallel_linears": 17},
    "vit": {"fuse_attention": 8, "last_token_pushdown": 3 + 1},
}
MODELS = [FOLDER / f"{name}.py" for name in OPERATIONS]


@dataclass
class Loaded:
    """A model as its file builds it, and as it is captured."""

    namespace: dict[str, Any]
    model: torch.nn.Module
    answer: Answer
    program: torch.export.ExportedProgram


@pytest.fixture(scope="module", params=MODELS, ids=lambda path: path.stem)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param.stem)


@pytest.fixture(scope="module")
def loaded(name: str, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    KERNELS.load()
    path = FOLDER / f"{name}.py"
    answer = capture(path, tmp_path_factory.mktemp(name))
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    torch.manual_seed(99)  # a model's weights are its own, whatever the process has drawn
    model = namespace["Model"](*namespace["get_init_inputs"]()).eval()
    return Loaded(namespace, model, answer, torch.export.load(str(answer.files["captured.pt2"])))


def inputs(loaded: Loaded, rows: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(rows)
    whole = [loaded.namespace["get_inputs"]() for _ in range(2)]
    return tuple(torch.cat(pair)[:rows] for pair in zip(*whole, strict=True))


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_a_model_cites_its_source_and_says_which_sizes_are_not_from_there(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert "et al." in text and "arXiv:" in text and any(str(year) in text for year in range(2014, 2027))
    assert "ours" in text


def test_a_model_is_captured_with_a_dynamic_batch_as_its_workload_says(loaded: Loaded) -> None:
    assert loaded.answer.inspection["dynamic"] == ["batch"]
    assert loaded.answer.inspection["notes"] == []
    assert loaded.answer.workload == Workload.model_validate(loaded.namespace["get_workloads"]())
    weights = loaded.model.state_dict()
    captured = loaded.program.state_dict
    assert captured and all(torch.equal(tensor, weights[key]) for key, tensor in captured.items())


def test_what_a_model_answers_depends_on_what_it_is_asked(loaded: Loaded) -> None:
    """Spread over the rows of a batch, not only over the columns of an output: else errors hide behind constants."""
    with torch.no_grad():
        outputs = pytree.tree_leaves(loaded.model(*inputs(loaded, len(loaded.namespace["get_inputs"]()[0]))))
    for output in outputs:
        assert output.dtype == torch.float32 and bool(output.isfinite().all())
        over_rows = output.std(dim=0).mean()
        assert over_rows > 0.02 and over_rows > 0.2 * output.std()


def test_a_graph_has_the_operations_that_the_model_stands_for(name: str, loaded: Loaded) -> None:
    found = Counter(
        node.target.overloadpacket.__name__.removesuffix("_")
        for node in loaded.program.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    )
    assert {operation: found[operation] for operation in OPERATIONS[name]} == OPERATIONS[name]


@pytest.fixture(scope="module")
def rewritten(loaded: Loaded) -> tuple[Graph, list[Rewrite]]:
    graph = Graph.from_exported(loaded.program)
    with torch.no_grad():
        return graph, run_passes(graph)


def test_every_pass_applies_or_refuses_and_the_answers_stay(
    name: str, loaded: Loaded, rewritten: tuple[Graph, list[Rewrite]]
) -> None:
    graph, rewrites = rewritten
    applied = {rewrite.pass_: len(rewrite.applied) for rewrite in rewrites}
    assert all(applied[one] >= sites for one, sites in APPLIED[name].items()), applied
    served = len(loaded.namespace["get_inputs"]()[0])
    sets = [inputs(loaded, rows) for rows in (1, 3, served + 1)]
    assert_equal_results(loaded.model, graph, *sets, tolerance=1e-4, again=False)


@pytest.mark.slow
def test_a_rewritten_model_is_exported_again_with_its_batch_still_dynamic(
    loaded: Loaded, rewritten: tuple[Graph, list[Rewrite]]
) -> None:
    graph, _ = rewritten
    assert_equal_results(loaded.model, graph, *[inputs(loaded, rows) for rows in (1, 3)], tolerance=1e-4)
