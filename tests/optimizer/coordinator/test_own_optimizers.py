"""A runtime that is wrong by one of its own optimizers is tried without that one.

No fusion that is wrong is known of the runtime that is installed, so a stand-in is: a session that answers wrongly
unless the guilty optimizers are left out. What a real session does with them: `compiling/test_own_optimizers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.own_optimizers import beside_a_wrong_baseline, without_the_culprit
from optimizer.coordinator.rescue import Rescue
from optimizer.coordinator.workshop import Built, Loaded, Plan
from optimizer.optimizing.planner import Facts, Planner
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Verification
from optimizer.spec import BackendStep, PassStep, Policy, PrecisionStep, RuntimeSettings
from optimizer.verifying.verify import Verifier
from tests.optimizer.coordinator.support import context
from tests.planted.originals import TOWER
from tests.planted.support import child, verifier_of, verify
from tests.planted.test_wrong_rewrites import of, tower

WRONG = EvaluationStatus.INCORRECT_NUMERICS
FUSED = of(tower, gelu="tanh")


class Shop:
    """Sessions that fuse wrongly unless one of `guilty` is left out, or the level is below `all`."""

    def __init__(self, *guilty: str, right_at: Sequence[str] = ("extended", "basic", "disabled")) -> None:
        self.guilty, self.right_at = set(guilty), right_at
        self.asked: list[dict[str, Any]] = []

    def build(self, candidate: Candidate) -> Built:
        return Built(Plan.of(candidate), Path("model"), None, 0.0, 0, {})

    def load(self, built: Built, settings: RuntimeSettings, *, name: str) -> Loaded:
        options = built.plan.backend.options
        self.asked.append(options)
        right = self.guilty & set(options.get("disabled_optimizers", [])) or options.get("level") in self.right_at
        return Loaded(Entered(tower if right else FUSED), 0.0, "float32", {})  # type: ignore[arg-type]


class Entered:
    def __init__(self, function: Any) -> None:
        self.child = child(function, TOWER.workload)

    def __enter__(self) -> Any:
        return self.child

    def __exit__(self, *_: object) -> None:
        pass


def bench(tmp_path: Path, shop: Shop, *wrong: Candidate, verification: Verification | None = None) -> Any:
    answer = Answer()
    found = verification or verify("TOWER", FUSED)
    for candidate in wrong:
        answer.file(Evaluation(candidate=candidate, status=WRONG, reason="it differs", verification=found))
    captured = SimpleNamespace(baseline_backend="eager")
    verifier = verifier_of("TOWER")
    return SimpleNamespace(answer=answer, context=context(tmp_path), shop=shop, verifier=verifier, captured=captured)


def runtime(*steps: Any, name: str = "onnxruntime", **options: Any) -> Candidate:
    return Candidate(name=name, steps=[*steps, BackendStep(backend="onnxruntime", options=options)], peer=not steps)


def test_the_guilty_optimizer_is_found_named_and_left_out(tmp_path: Path) -> None:
    rewritten = runtime(PassStep(pass_="flatten_gathers"), name="onnxruntime + rewrites", spinning=False)
    shop = Shop("GeluFusionL2")
    scene = bench(tmp_path, shop, runtime(), rewritten)
    first, second = without_the_culprit(scene, [runtime(), rewritten])
    assert first.name == "onnxruntime without GeluFusionL2" and first.peer
    assert first.steps[-1].options == {"disabled_optimizers": ["GeluFusionL2"]}  # type: ignore[union-attr]
    assert second.steps[0] == rewritten.steps[0] and not second.peer
    assert second.steps[-1].options == {"spinning": False, "disabled_optimizers": ["GeluFusionL2"]}  # type: ignore[union-attr]
    (note,) = scene.answer.notes
    assert note.startswith("ONNX Runtime is wrong on this model because of its own optimizers (it differs)")
    assert len(shop.asked) < 20, "looked for once"


def test_where_no_name_helps_a_lower_level_is_taken(tmp_path: Path) -> None:
    (found,) = without_the_culprit(bench(tmp_path, Shop(right_at=("basic",)), runtime()), [runtime()])
    assert found.name == "onnxruntime with its optimizer at level basic"
    assert found.steps[-1].options == {"level": "basic"}  # type: ignore[union-attr]


def test_nothing_is_proposed_for_a_runtime_that_is_wrong_whatever_is_left_out(tmp_path: Path) -> None:
    scene = bench(tmp_path, Shop(right_at=()), runtime())
    assert without_the_culprit(scene, [runtime()]) == [] and scene.answer.notes == []


def test_the_search_ends_with_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop("GeluFusionL2")
    scene = bench(tmp_path, shop, runtime())
    monkeypatch.setattr("optimizer.coordinator.own_optimizers.MOST_S", -1.0)
    assert without_the_culprit(scene, [runtime()]) == [] and shop.asked == []


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(name="openvino", steps=[BackendStep(backend="openvino")]),
        runtime(PrecisionStep(precision="bfloat16")),
        runtime(level="basic"),
        runtime(disabled_optimizers=["GeluFusionL2"]),
    ],
    ids=["another engine", "a lower precision", "a lower level", "left out already"],
)
def test_others_are_left_alone(tmp_path: Path, candidate: Candidate) -> None:
    shop = Shop("GeluFusionL2")
    assert without_the_culprit(bench(tmp_path, shop, candidate), [candidate]) == [] and shop.asked == []


def test_a_graph_that_departs_before_any_engine_sees_it_is_no_fault_of_the_runtime(tmp_path: Path) -> None:
    told = verify("TOWER", FUSED).model_copy(update={"first_diverging": "aten.gelu.default (gelu, m.py:3)"})
    assert without_the_culprit(bench(tmp_path, Shop("GeluFusionL2"), runtime(), verification=told), [runtime()]) == []


@pytest.mark.parametrize(("factor", "proposed"), [(1.01, True), (1.0, False)])
def test_a_runtime_that_is_the_baseline_and_wrong_is_told_and_tried_without_the_culprit(
    tmp_path: Path, factor: float, proposed: bool
) -> None:
    """Else a candidate could be as wrong as the baseline, and thrice."""
    verifier = Verifier(TOWER.workload, Policy(), np.random.default_rng(0), verifier_of("TOWER").reference)
    verifier.prepare(child(lambda x: tower(x) * factor, TOWER.workload))
    scene = bench(tmp_path, Shop("ConstantFolding"))
    scene.captured.baseline_backend, scene.verifier = "onnxruntime", verifier
    scene.baseline = lambda settings: runtime(name="baseline")
    found = [candidate.name for candidate in beside_a_wrong_baseline(scene)]
    assert found == ["onnxruntime without ConstantFolding"] * proposed
    true = np.concatenate([question.truth[0] for question in verifier.truths.pooled])
    off = 0.01 * np.sqrt((true**2).mean() / ((true - true.mean(0)) ** 2).mean())
    told = [note.partition(",")[0] for note in scene.answer.notes]
    assert told == [f"The original itself is off by {off:.1e} of its spread"] * proposed


def test_what_is_proposed_is_tried_like_any_candidate(tmp_path: Path) -> None:
    scene = bench(tmp_path, Shop("SkipLayerNormFusion"), runtime())
    tried: list[Candidate] = []
    planner = Planner(Facts("pt2", "eager", {"onnxruntime": None}, RuntimeSettings(), Policy(), None), [])
    Rescue(scene, planner, tried.extend, at_once=1).run([runtime()])
    assert [candidate.name for candidate in tried] == ["onnxruntime without SkipLayerNormFusion"]
