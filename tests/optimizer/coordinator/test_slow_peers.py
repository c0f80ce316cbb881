"""A peer that takes minutes to compile is tried where the time is left for it, and named with the reason elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.slow_peers import slow_peers
from optimizer.result import Candidate, Evaluation, EvaluationStatus
from optimizer.spec import BackendStep, PassStep, PrecisionStep
from tests.optimizer.coordinator.support import context

PASSED, WRONG = EvaluationStatus.PASSED, EvaluationStatus.INCORRECT_NUMERICS
SLOW = "inductor mode=max-autotune freezing=True"
BUILDS: Any = SimpleNamespace(workers=2)


def engine(name: str, *steps: Any) -> Candidate:
    return Candidate(name=name, peer=not steps, steps=[*steps, BackendStep(backend=name.split()[0])])


def bench(tmp_path: Path, *found: tuple[Candidate, float | None], compile_s: float = 20.0, **policy: Any) -> Any:
    """Each candidate with its speedup in the screening, None where it was wrong."""
    answer = Answer()
    for candidate, speedup in found:
        status = WRONG if speedup is None else PASSED
        answer.file(Evaluation(candidate=candidate, status=status, reason="r", screened_speedup=speedup))
    shop = SimpleNamespace(build=lambda candidate: SimpleNamespace(compile_s=compile_s))
    return SimpleNamespace(context=context(tmp_path, **policy), answer=answer, shop=shop)


def proposed(bench: Any, left_s: float = 121.0) -> list[str]:
    return [c.name for c in slow_peers(bench, BUILDS, time.monotonic() + left_s)]


def test_torch_compile_is_tried_once_more_with_what_its_documentation_gives_for_a_cpu(tmp_path: Path) -> None:
    one = bench(tmp_path, (engine("inductor"), 1.2), (engine("aot_inductor"), 1.4))
    (slow,) = slow_peers(one, BUILDS, time.monotonic() + 121.0)
    assert (slow.name, slow.peer) == (SLOW, True)
    assert slow.steps == [BackendStep(backend="inductor", options={"mode": "max-autotune", "freezing": True})]


def test_where_its_time_is_not_left_it_is_named_with_the_time_that_it_takes(tmp_path: Path) -> None:
    one = bench(tmp_path, (engine("inductor"), 1.2))
    assert proposed(one, left_s=119.0) == []
    filed = one.answer.evaluations[SLOW]
    assert filed.status == EvaluationStatus.NOT_TRIED
    # five times the 20 s of the default mode, and 20 s to be tried
    assert filed.reason == "it takes some 120 s to compile and to try, and 119 s are left for it"
    assert proposed(one, left_s=-5.0) == [] and "0 s are left" in one.answer.evaluations[SLOW].reason


def test_a_second_one_waits_for_the_worker_that_the_first_leaves(tmp_path: Path) -> None:
    low = engine("inductor + bfloat16").model_copy(
        update={"steps": [PrecisionStep(precision="bfloat16"), BackendStep(backend="inductor")], "peer": True}
    )
    both = [SLOW, f"{SLOW} + bfloat16"]
    assert proposed(bench(tmp_path, (engine("inductor"), 1.2), (low, 1.3)), left_s=181.0) == both
    assert proposed(bench(tmp_path, (engine("inductor"), 1.2), (low, 1.3)), left_s=179.0) == both[:1]


@pytest.mark.parametrize(("rivals", "tried"), [("best", []), ("all", [SLOW])])
def test_an_engine_far_behind_is_tried_only_where_all_peers_are_wanted(
    tmp_path: Path, rivals: str, tried: list[str]
) -> None:
    one = bench(tmp_path, (engine("inductor"), 1.0), (engine("openvino"), 2.0), rivals=rivals)
    assert proposed(one) == tried
    if not tried:
        assert one.answer.evaluations[SLOW].reason == "inductor reaches 50% of the fastest candidate's speed"


@pytest.mark.parametrize(
    "found",
    [
        [(engine("inductor"), None)],  # wrong in its default mode
        [(engine("inductor", PassStep(pass_="split")), 2.0)],  # ours
        [(engine("openvino"), 2.0)],  # has no such mode
        [],
    ],
)
def test_what_is_no_correct_peer_of_that_engine_is_not_tried(tmp_path: Path, found: list[Any]) -> None:
    one = bench(tmp_path, *found, rivals="all")
    assert proposed(one) == [] and SLOW not in one.answer.evaluations


def test_on_a_gpu_it_is_not_tried(tmp_path: Path) -> None:
    one = bench(tmp_path, (engine("inductor"), 1.2))
    one.context.spec = one.context.spec.model_copy(update={"target": "cuda:sm_90"})
    assert proposed(one) == []
