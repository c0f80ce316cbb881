"""Steps through torch.compile: what is built in one process trains in another as the loop that a user writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

from optimizer.compiling.availability import no_compiler, no_python_headers
from optimizer.compiling.backends.inductor_step import CACHE, InductorStep
from optimizer.compiling.base import Context
from tests.optimizer.compiling.step.steps import captured, rewritten
from tests.optimizer.compiling.step.test_runtime import batches, by_hand

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("optimizer", ["eager", "compiled"])
def test_a_compiled_step_trains_as_the_loop_that_a_user_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    assert no_compiler() is None and no_python_headers() is None
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    answer = captured(tmp_path, "adagrad")
    passes = [{"pass": "update_embedding_rows"}, *([] if optimizer == "compiled" else [{"pass": "fuse_optimizer"}])]
    step = rewritten(answer.files["captured.step"], passes)
    backend, sets = InductorStep(), batches(answer)
    context = Context(answer.workload, 1, "cpu", tmp_path, "step", step)
    options = backend.Options.model_validate({"optimizer": optimizer})
    out = tmp_path / "out"
    out.mkdir()
    assert backend.build(step, options, context, out) == {"load": {"cache": CACHE}}
    assert (out / CACHE).stat().st_size > 0
    # a fresh process has a folder of its own: what is mapped into this one must not be written over
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "another"))
    torch._dynamo.reset()
    before = counters["inductor"]["fxgraph_cache_hit"]
    one = backend.load(out, options, context)
    assert counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"] > before
    losses, _ = by_hand(tmp_path, "adagrad", sets)
    assert [float(one.call(one.stage(arrays))) for arrays in sets] == pytest.approx(losses, rel=1e-5)
