"""Operations lead to lines of the user's code, where call stacks were recorded."""

from __future__ import annotations

import pytest

from optimizer.diagnosing.traces.ranking import ranked
from optimizer.diagnosing.traces.sources import users_line
from tests.optimizer.diagnosing.traces.building import Building
from tests.optimizer.diagnosing.traces.real import trace
from tests.optimizer.diagnosing.traces.training import Training

TORCH = "/home/x/env/lib/python3.7/site-packages/torch/nn/modules/module.py(1051): _call_impl"


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        (f"{TORCH};/home/x/models/train.py(54): step;train.py(99): <module>", "train.py:54"),
        (f"{TORCH};torch/autograd/profiler.py(611): __init__", None),
        ("<built-in method item of Tensor object at 0x7f>;metrics.py(7): update", "metrics.py:7"),
        ("/usr/lib/python3.11/json/decoder.py(3): decode; loss.py(12): forward", "loss.py:12"),
        ("no frame at all", None), ("", None), ("x.py(99999999999): f", None),
    ],
)  # fmt: skip
def test_the_innermost_line_that_is_no_librarys(stack: str, line: str | None) -> None:
    assert users_line(stack) == line


def test_lines_are_counted_for_each_operation() -> None:
    job = Building()
    for at, line in enumerate((7, 7, 9)):
        job.op("aten::item", 10 * at, 5, **{"Call stack": f"{TORCH};metrics.py({line}): update"})
    job.op("aten::item", 100, 5, **{"Call stack": ["not text"]})
    (row,) = job.read().operation_rows
    assert row.sources == {"metrics.py:7": 2, "metrics.py:9": 1}


def test_a_finding_names_the_lines_that_cause_it() -> None:
    def reads_back(training: Training) -> None:
        for _ in range(12):
            training.job.op("aten::item", training.now - 3, 4, **{"Call stack": "metrics.py(7): update"})
            training.job.call("cudaStreamSynchronize", training.now - 3, 4)
            training.gap(20)
            training.work("triton_poi_fused_7", 20)

    (finding,) = ranked([Training(steps=3).run(reads_back).read()]).findings
    assert (finding.rule, finding.evidence["sources"]) == ("host_synchronization", {"metrics.py:7": 36})


def test_stacks_of_a_real_trace_lead_to_its_script() -> None:
    rows = {row.name: row.sources for row in trace("resnet50_workers0").operation_rows}
    assert all(line.startswith("resnet50_profiler_api.py:") for line in rows["aten::add_"])
    assert rows["aten::add_"]
