"""Tiny training steps: uploads as users write them, captured as a run captures them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from optimizer.compiling.step.contender import StepContender
from optimizer.compiling.step.runtime import Step, design_of, load_graph
from optimizer.optimizing.step_passes import rewrite_step
from optimizer.spec import Workload
from tests.optimizer.capturing.uploads import Answer, capture, module

ROWS, WIDTH, BATCH = 50, 6, 8

# two lookups in one table with a padding row, one lookup in another, a dense layer
RANKER = f"""
def __init__(self):
    super().__init__()
    torch.manual_seed(3)
    self.items = nn.Embedding({ROWS}, {WIDTH}, padding_idx=0)
    self.users = nn.Embedding({ROWS}, {WIDTH})
    self.head = nn.Linear({3 * WIDTH}, 1)

def forward(self, item, seen, user):
    parts = [self.items(item), self.items(seen).mean(1), self.users(user)]
    return self.head(torch.cat(parts, 1)).squeeze(1)
"""
LOSS = f"""
def loss(logits, click):
    return nn.functional.binary_cross_entropy_with_logits(logits, click)

def get_targets():
    return [(torch.arange({BATCH}) % 2).float()]
"""
IDS = f"torch.randint(0, {ROWS}, "
INPUTS = f"[{IDS}({BATCH},)), {IDS}({BATCH}, 3)), {IDS}({BATCH},))]"


def workload(optimizer: str = "sgd", lr: float = 0.1, **more: Any) -> dict[str, Any]:
    ids = {"dtype": "int64", "values": {"below": ROWS}}
    return {
        "mode": "training",
        "loss": "loss",
        "optimizer": {"name": optimizer, "lr": lr},
        "inputs": [
            {"name": "item", "shape": [BATCH], **ids},
            {"name": "seen", "shape": [BATCH, 3], **ids},
            {"name": "user", "shape": [BATCH], **ids},
            {"name": "click", "dtype": "float32", "shape": [BATCH], "values": {"bernoulli": 0.5}},
        ],
        **more,
    }


def ranker(folder: Path) -> Path:
    return module(folder, RANKER, inputs=INPUTS, extra=LOSS)


def captured(folder: Path, optimizer: str = "sgd", **more: Any) -> Answer:
    return capture(ranker(folder), folder / "scratch", workload=workload(optimizer, **more))


def contender(step: Path, workload: Workload) -> StepContender:
    torch.set_grad_enabled(True)
    return StepContender(Step(load_graph(step), design_of(step)), workload)


def rewritten(step: Path, passes: list[dict[str, Any]] | None = None) -> Path:
    out = step.with_name("rewritten.step")
    rewrite_step(step, passes, out)
    return out
