"""Which tables are updated by rows, and why not the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optimizer.compiling.step.runtime import design_of
from optimizer.optimizing.step_passes import rewrite_step
from optimizer.result import Rewrite
from tests.optimizer.capturing.uploads import capture, line_of, module
from tests.optimizer.compiling.step.steps import BATCH, LOSS, ROWS, captured, ranker

PASS: list[dict[str, Any]] = [{"pass": "update_embedding_rows"}]


def rewrite(step: Path) -> tuple[Rewrite, list[str]]:
    out = step.with_name("rewritten.step")
    (found,) = rewrite_step(step, PASS, out)
    return found, design_of(out)["rows"] if out.exists() else []


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_it_updates_the_rows_that_a_step_looks_up(tmp_path: Path, optimizer: str) -> None:
    found, rows = rewrite(captured(tmp_path, optimizer).files["captured.step"])
    assert rows == ["model.items.weight", "model.users.weight"]
    # 8 items and 3 seen ones for each of 8 rows
    assert [site.reason for site in found.applied] == [
        "32 looked-up rows are updated, not all 50",
        "8 looked-up rows are updated, not all 50",
    ]
    assert found.applied[1].source == f"model.py:{line_of(ranker(tmp_path), 'parts =')}"


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_it_refuses_an_optimizer_that_moves_rows_without_a_gradient(tmp_path: Path, optimizer: str) -> None:
    found, rows = rewrite(captured(tmp_path, optimizer).files["captured.step"])
    assert rows == [] and found.applied == []
    assert {site.reason.partition(" moves ")[0] for site in found.refused} == {optimizer}


def one_table(folder: Path, body: str, *, rows: int = ROWS) -> tuple[Rewrite, list[str]]:
    text = f"""
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding({rows}, 4)
            self.other = nn.Embedding({rows}, 4, scale_grad_by_freq=True)
            self.head = nn.Linear(4, 1)

        def forward(self, ids):
            {body}
    """
    asked = {
        "mode": "training",
        "loss": "loss",
        "optimizer": {"name": "sgd", "lr": 0.1},
        "inputs": [
            {"name": "ids", "dtype": "int64", "shape": [BATCH], "values": {"below": rows}},
            {"name": "click", "dtype": "float32", "shape": [BATCH]},
        ],
    }
    path = module(folder, text, inputs=f"[torch.arange({BATCH}) % {rows}]", extra=LOSS)
    return rewrite(capture(path, folder / "scratch", workload=asked).files["captured.step"])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return self.head(self.table(ids)).squeeze(1) + self.table.weight.sum()", "the table is used by"),
        ("return self.head(nn.functional.linear(self.table(ids), self.table.weight)[:, :4]).squeeze(1)", "is used by"),
        ("return self.head(self.other(ids)).squeeze(1)", "its gradient is scaled by how often an id occurs"),
        (
            "return self.head(self.table((self.head.weight.sum() * 0).long() + ids)).squeeze(1)",
            "the ids are computed from",
        ),
    ],
)
def test_it_refuses_a_table_whose_update_would_not_be_the_same(tmp_path: Path, body: str, reason: str) -> None:
    found, rows = one_table(tmp_path, body)
    assert rows == []
    assert len(found.refused) == 1 and reason in found.refused[0].reason


def test_it_refuses_a_table_that_a_step_reads_as_a_whole(tmp_path: Path) -> None:
    found, rows = one_table(tmp_path, "return self.head(self.table(ids)).squeeze(1)", rows=5)
    assert rows == [] and found.refused[0].reason == "a step looks 8 rows up, and the table has 5"


def test_ids_may_be_computed_from_the_inputs(tmp_path: Path) -> None:
    _, rows = one_table(tmp_path, f"return self.head(self.table((ids * 7 + 3) % {ROWS})).squeeze(1)")
    assert rows == ["model.table.weight"]
