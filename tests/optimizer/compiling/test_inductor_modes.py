"""The modes of torch.compile mean what PyTorch says that they mean, and Dynamo is told of freezing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch._inductor.config
from torch._inductor import list_mode_options

from optimizer.compiling.backends.inductor import Inductor, _inductor_options
from optimizer.compiling.base import Context
from tests.optimizer.compiling.support import WORKLOAD, export, ranker

CPU = Context(WORKLOAD, 1, "cpu", Path("."), "pt2", Path("model.pt2"))
GPU = Context(WORKLOAD, 1, "cuda:sm_90", Path("."), "pt2", Path("model.pt2"))


def options(**given: Any) -> Inductor.Options:
    return Inductor.Options.model_validate(given)


@pytest.mark.parametrize("mode", ["default", "max-autotune", "max-autotune-no-cudagraphs"])
def test_a_mode_on_a_gpu_is_pytorchs_own(mode: str) -> None:
    assert _inductor_options(options(mode=mode), GPU) == list_mode_options(mode)


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_on_a_cpu_no_kernels_are_recorded(mode: str) -> None:
    assert _inductor_options(options(mode=mode), CPU) == list_mode_options("max-autotune-no-cudagraphs")


def test_recorded_kernels_and_frozen_weights_are_options_of_their_own() -> None:
    assert _inductor_options(options(cuda_graphs=True), GPU) == {"triton.cudagraphs": True}
    assert _inductor_options(options(freezing=True), CPU) == {"freezing": True}
    assert _inductor_options(options(), CPU) == {}


def test_dynamo_asks_the_process_whether_weights_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given with the options of one compile alone, freezing would be of no effect: weights stay inputs."""
    monkeypatch.setattr(torch._inductor.config, "freezing", False)
    exported = export(ranker())
    for frozen in (True, False):
        Inductor()._compiled(exported, options(freezing=frozen), CPU)
        assert torch._inductor.config.freezing is frozen
