"""The whole library over small graphs: every spelling of the corpus becomes its operation, no near miss does."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import kernels
import tests.kernels.corpus
from kernels import KERNELS
from kernels.lowering import is_fused, lower_to_reference
from optimizer.errors import FuseworksError
from optimizer.optimizing.identity import FOLDERS, ROOT, modules_behind
from tests.kernels.corpus import Corpus, corpus_of
from tests.optimizer.optimizing.support import (
    BATCH,
    assert_equal_results,
    assert_loads_elsewhere,
    count,
    export,
    reasons,
    rewrite,
)
from tests.optimizer.optimizing.truth import Calls, assert_same

kernels.load()
NAMES = sorted(module.name for module in pkgutil.iter_modules(tests.kernels.corpus.__path__))
SPELLINGS = [(name, dtype, s) for name in NAMES for dtype in corpus_of(name).dtypes for s in corpus_of(name).spellings]
REFUSED = [(name, reason) for name in NAMES for reason in corpus_of(name).refused]
PASSED_OVER = [(name, case) for name in NAMES for case in corpus_of(name).passed_over]
# kernels whose corpus is the older file beside this one, or that are called by name
ELSEWHERE = {"add_rms_norm", "add_layer_norm"}


def fused(corpus: Corpus, function: Callable[..., Any], dtype: torch.dtype, **options: Any) -> tuple[Any, Any, Any]:
    model = Calls(lambda _, *args: function(*args))
    inputs = corpus.inputs(3, dtype)
    dims = tuple({0: BATCH} if place in corpus.batched else None for place in range(len(inputs)))
    result, graph = rewrite(export(model, *inputs, dims={"args": dims}), "fuse_operations", **options)
    return result, graph, model


def same(corpus: Corpus, model: Any, graph: Any, dtype: torch.dtype) -> None:
    sizes = (1, 5) if corpus.batched else (3,)
    tolerance = corpus.tolerance_bfloat16 if dtype == torch.bfloat16 else corpus.tolerance
    assert_same(model, graph, *[corpus.inputs(size, dtype) for size in sizes], tolerance=tolerance)


@pytest.mark.parametrize(("name", "dtype", "spelling"), SPELLINGS, ids=str)
def test_a_spelling_becomes_the_operation(name: str, dtype: torch.dtype, spelling: str) -> None:
    corpus = corpus_of(name)
    result, graph, model = fused(corpus, corpus.spellings[spelling], dtype)
    assert count(graph, kernels.KERNELS.get(name).op) >= 1, (reasons(result.applied), reasons(result.refused))
    same(corpus, model, graph, dtype)


@pytest.mark.parametrize(("name", "reason"), REFUSED)
def test_a_near_miss_is_listed_with_its_reason_and_node(name: str, reason: str) -> None:
    corpus = corpus_of(name)
    result, graph, model = fused(corpus, corpus.refused[reason], corpus.dtypes[0], kernels=[name])
    assert count(graph, kernels.KERNELS.get(name).op) == 0
    assert any(site.node and reason in site.reason for site in result.refused), reasons(result.refused)
    same(corpus, model, graph, corpus.dtypes[0])


@pytest.mark.parametrize(("name", "case"), PASSED_OVER)
def test_what_is_something_else_stays_as_it_is(name: str, case: str) -> None:
    corpus = corpus_of(name)
    result, graph, model = fused(corpus, corpus.passed_over[case], corpus.dtypes[0], kernels=[name])
    assert result.applied == [] == result.refused
    same(corpus, model, graph, corpus.dtypes[0])


def test_every_kernel_that_matches_has_a_corpus() -> None:
    matching = {k.name for k in kernels.KERNELS if k.patterns or k.spellings}
    assert matching == {*NAMES, *ELSEWHERE}


def test_the_planted_near_misses_are_at_least_thirty() -> None:
    assert len(REFUSED) + len(PASSED_OVER) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_was_fused_is_exported_again_and_lowered_with_its_batch_dynamic(name: str) -> None:
    corpus = corpus_of(name)
    dtype = corpus.dtypes[0]
    _, graph, model = fused(corpus, next(iter(corpus.spellings.values())), dtype)
    lowered = lower_to_reference(graph.to_exported())
    assert not any(is_fused(node) for node in lowered.graph.nodes)
    for size in (1, 5) if corpus.batched else (3,):
        inputs = corpus.inputs(size, dtype)
        with torch.no_grad():
            got, want = (torch.utils._pytree.tree_leaves(m(*inputs)) for m in (lowered.module(), model))
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_the_passes_identity_changes_with_every_kernel() -> None:
    behind = {
        path.relative_to(ROOT).as_posix() for path in modules_behind(ROOT / FOLDERS["pt2"] / "fuse_operations.py")
    }
    assert {f"kernels/ops/{name}.py" for name in KERNELS.names()} <= behind
    assert {"kernels/patterns.py", "kernels/norms.py", "kernels/spec.py"} <= behind


def test_an_unknown_kernel_is_named() -> None:
    with pytest.raises(FuseworksError, match="no kernel called 'nothing'"):
        fused(corpus_of("rms_norm"), lambda x, w: x, torch.float32, kernels=["nothing"])


def test_the_larger_operation_takes_what_a_smaller_one_would() -> None:
    corpus = corpus_of("modulate")
    result, graph, _ = fused(corpus, corpus.spellings["as DiT does"], torch.float32)
    assert [r.split()[0] for r in reasons(result.applied)] == ["modulate"]
    assert count(graph, torch.ops.fuseworks.layer_norm) == 0


def test_a_near_miss_of_one_that_another_takes_is_not_listed() -> None:
    corpus = corpus_of("layer_norm")
    result, _, _ = fused(corpus, corpus.spellings["layer_norm"], torch.float32)
    assert not any("residual" in reason for reason in reasons(result.refused))


def model_of_several(x: torch.Tensor, up: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = F.silu(x) * up
    total = hidden + x
    normed = F.rms_norm(total, (6,), weight, 1e-6)
    return torch.topk(torch.softmax(normed, -1), 2).values, total


def test_several_operations_survive_saving_and_load_in_a_new_process(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Calls(lambda _, *args: model_of_several(*args))
    inputs = (torch.randn(3, 6), torch.randn(3, 6), torch.randn(6))
    exported = export(model, *inputs, dims={"args": ({0: BATCH}, {0: BATCH}, None)})
    result, graph = rewrite(exported, "fuse_operations")
    assert sorted(r.split()[0] for r in reasons(result.applied)) == ["add_rms_norm", "gated_activation", "topk_gating"]
    assert_equal_results(model, graph, (torch.randn(1, 6), torch.randn(1, 6), torch.randn(6)))
    assert_loads_elsewhere(model, graph, inputs, tmp_path)
