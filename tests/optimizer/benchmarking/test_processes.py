"""The same with real processes: the reference's own contender, unconfined, verified and judged from outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.benchmarking.judge import Pair, judge
from optimizer.benchmarking.screen import screen
from optimizer.benchmarking.sets import entrant
from optimizer.benchmarking.summary import performance
from optimizer.inputs import draw
from optimizer.result import Verdict
from optimizer.sandbox import Child, ChildSpec, start
from optimizer.spec import Policy, Workload
from optimizer.verifying.verify import Verifier

WORKLOAD = Workload.model_validate({"inputs": [{"name": "x", "dtype": "float32", "shape": [64, 128]}]})
ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"), "1")


def saved(path: Path, times: int) -> Path:
    """The same answer whatever `times` is; the work grows with it."""
    weight = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], [f"h{i}"]) for i in range(times)]
    nodes += [helper.make_node("Mean", [f"h{i}" for i in range(times)], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 128])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 128])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def starter(path: Path) -> Callable[[], Child]:
    def begin() -> Child:
        spec = ChildSpec(name="contender", inputs={"model": path}, environment=ENVIRONMENT, trusted=True)
        child = start(spec)
        child.call("verifying.load_reference", timeout_s=120, model=child.path("model"), format="onnx")
        return child

    return begin


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {name: saved(folder / f"{name}.onnx", times) for name, times in (("baseline", 60), ("winner", 6))}


def test_processes_are_verified_screened_and_judged(models: dict[str, Path]) -> None:
    rng = np.random.default_rng(0)

    def drawing() -> list[np.ndarray]:
        return draw(WORKLOAD, {}, rng)

    with starter(models["baseline"])() as reference:
        verifier = Verifier(WORKLOAD, Policy(), rng, reference)
        with starter(models["baseline"])() as baseline, starter(models["winner"])() as candidate:
            verifier.prepare(baseline)
            verification = verifier.verify(candidate)
            assert verification.passed, verification.reason
            check = verifier.agreement("float32")
            pair = entrant("winner", candidate), entrant("baseline", baseline)
            assert screen(*pair, drawing, rng=rng, items=64, check=check).speedup > 2
        outcome = judge(
            {name: starter(path) for name, path in models.items()},
            [Pair("baseline", "winner")],
            drawing,
            rng=rng,
            looks=(2,),
            rounds=3,
            warm_up_s=0.3,
            checks={"winner": check},
            reference=reference,
        )
    assert not outcome.failed
    comparison = outcome.comparison("baseline", "winner")
    assert comparison is not None
    assert comparison.pairs == 2 and comparison.verdict in {Verdict.FASTER, Verdict.CANNOT_TELL}
    assert min(comparison.log_speedups) > np.log(2), "a tenth of the work"
    figures = performance(outcome.samples["winner"], items=64)
    assert figures.processes == 2 and figures.calls >= 2 * 3 * 2
    assert all(one.peak_rss_bytes for one in outcome.samples["winner"])
