"""What a report says of a training step."""

from __future__ import annotations

from optimizer.reporting.report import render
from optimizer.result import Convergence, Result, Verification
from optimizer.spec import Workload
from tests.optimizer.reporting.sample import result

WORKLOAD = Workload.model_validate(
    {
        "mode": "training",
        "loss": "log_loss",
        "optimizer": {"name": "adagrad", "lr": 0.01},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 8]}],
    }
)
CURVE = Convergence(
    steps=2, baseline_losses=[0.75, 0.5], losses=[0.75, 0.5], deviation=1e-7, noise=2e-7, allowed=1.1e-5, passed=True
)


def of_training() -> Result:
    found = result()
    found.workload = WORKLOAD
    candidate = next(e for e in found.candidates if e.candidate.name == found.winner)
    candidate.verification = Verification(passed=True, convergence=CURVE)
    return found


def test_it_says_what_was_timed_and_how_the_loss_went() -> None:
    text = render(of_training(), {})
    assert "one training step (log_loss, adagrad), before and after" in text
    assert "2 steps of training on the same batches as the original: the loss went from 0.75 to 0.5;" in text
    assert "the two curves lie 1.0e-07 of the loss apart" in text


def test_of_inference_it_speaks_of_calls() -> None:
    text = render(result(), {})
    assert "one call, before and after" in text and "steps of training" not in text
