"""What a child says when it cannot predict: whose fault it is, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from kernels.aot.devices import H100
from optimizer.children.session import Session
from optimizer.compiling import torch_program
from optimizer.errors import FuseworksError
from optimizer.predicting import child
from optimizer.predicting.inductor import absent, lowering
from tests.optimizer.predicting import models


def raised(call: Any) -> FuseworksError:
    with pytest.raises(FuseworksError) as caught:
        call()
    return caught.value


def test_without_a_compiler_it_names_what_is_missing_and_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(child, "why_unavailable", lambda _: "ptxas cannot be found: reinstall triton (`make setup`)")
    request = {"target": "cuda:sm_90", "models": {}, "workload": {}}
    error = raised(lambda: child.lower(Session(0, tmp_path), request, []))
    assert (error.id, error.side) == ("predicting:ours:unavailable", "ours")
    assert error.message == "Nothing can be compiled for cuda:sm_90 on this machine: ptxas cannot be found."
    assert error.remedy == "reinstall triton (`make setup`)"


@pytest.fixture
def failing(monkeypatch, tmp_path) -> Any:
    """Lowers a graph while Inductor raises what it is told to."""
    path = models.save(models.Residual(), (torch.randn(8, models.WIDTH),), tmp_path / "model.pt2")
    monkeypatch.setattr(absent, "absent_gpu", lambda _: __import__("contextlib").nullcontext())
    monkeypatch.setattr(torch_program, "pin_precision", lambda: None)

    def lower(error: BaseException) -> Any:
        def inductor(*_: object) -> None:
            exec(compile("raise error", "somewhere/torch/_inductor/graph.py", "exec"), {"error": error})

        monkeypatch.setattr(lowering, "lower", inductor)
        workload = models.workload(("float32", ["batch", models.WIDTH]))
        return lambda: child.lower_one(path, workload, H100, None)

    return lower


def test_what_inductor_raises_is_told_in_its_own_words(failing):
    error = raised(failing(AssertionError("no lowering for aten.odd")))
    assert (error.id, error.side) == ("predicting:user:not-lowered", "user")
    assert error.message.endswith("for cuda:sm_90: AssertionError: no lowering for aten.odd")


def test_want_of_memory_is_not_the_graphs_fault(failing):
    with pytest.raises(MemoryError):
        failing(MemoryError())()


def test_symbols_take_the_workloads_sizes(tmp_path: Path):
    path = models.save(models.Residual(), (torch.randn(8, models.WIDTH),), tmp_path / "model.pt2")
    exported = torch.export.load(path)
    found = child.symbol_sizes(exported, models.workload(("float32", ["batch", models.WIDTH])))
    assert list(found.values()) == [models.BATCH]
    (symbol,) = found
    assert str(symbol) in str(next(iter(exported.range_constraints)))
