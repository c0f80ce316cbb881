"""The profile of an exported graph: names, places, FLOPs and bytes worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.children.session import Session
from optimizer.compiling.base import BACKENDS, Context
from optimizer.compiling.child import Loading
from optimizer.compiling.torch_contender import TorchContender
from optimizer.profiling import child
from optimizer.profiling.torch_graph import moved_bytes
from optimizer.result import Operation, Profile
from optimizer.spec import Workload

BATCH, WIDTH, HIDDEN, ROWS = 5, 12, 7, 123


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


class Ranker(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(ROWS, WIDTH)
        self.block = Block()

    def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        hidden = self.block(self.table(ids) + dense)
        query = hidden.view(1, 1, BATCH, HIDDEN)
        attended = torch.nn.functional.scaled_dot_product_attention(query, query, query)
        return attended.view(BATCH, HIDDEN) @ hidden.t()


WORKLOAD = Workload.model_validate(
    {
        "inputs": [
            {"name": "ids", "dtype": "int64", "shape": [BATCH]},
            {"name": "dense", "dtype": "float32", "shape": [BATCH, WIDTH]},
        ]
    }
)
ARRAYS = [np.arange(BATCH, dtype=np.int64), np.ones((BATCH, WIDTH), np.float32)]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    folder = tmp_path_factory.mktemp("profile")
    model = Ranker().eval()
    exported = torch.export.export(model, tuple(torch.from_numpy(a) for a in ARRAYS))
    torch.export.save(exported, folder / "captured.pt2")
    return run(folder, model)


def run(folder: Path, model: Callable[..., Any], **fields: Any) -> Profile:
    """As the baseline of a module: its graph is looked into, and the module itself is timed beside it."""
    context = Context(WORKLOAD, 1, "cpu", folder, "pt2", folder / "captured.pt2")
    loaded = Loading(BACKENDS.get("eager"), None, None, context)
    session = Session(fd=-1, scratch=folder, state={"contender": TorchContender(model, WORKLOAD), "loaded": loaded})
    answer, arrays = child.profile(session, {"calls": 3, **fields}, ARRAYS)
    assert arrays == []
    return Profile.model_validate(answer["profile"])


def row(profile: Profile, op: str) -> Operation:
    (found,) = [r for r in profile.operations if r.op == op]
    return found


def test_every_operation_of_the_model_has_a_row_and_the_shares_add_up(profiled: Profile):
    assert {"embedding", "add", "linear", "relu", "scaled_dot_product_attention", "matmul"} <= {
        r.op for r in profiled.operations
    }
    assert sum(r.share for r in profiled.operations) == pytest.approx(1)
    assert profiled.total_ms == pytest.approx(sum(r.self_ms for r in profiled.operations))
    assert [r.self_ms for r in profiled.operations] == sorted((r.self_ms for r in profiled.operations), reverse=True)
    assert profiled.overhead is not None
    assert profiled.overhead > 0
    assert profiled.page_faults_per_call is not None


def test_rows_name_the_module_and_the_users_own_line_after_a_save_and_a_load(profiled: Profile):
    linear = row(profiled, "linear")
    assert linear.module == "block.linear"
    line = next(
        n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "torch.relu(self.linear" in text
    )
    assert linear.source == f"{Path(__file__).name}:{line}"
    assert row(profiled, "relu").module == "block"
    assert row(profiled, "matmul").module is None


def test_flops_of_products_are_those_worked_out_by_hand(profiled: Profile):
    assert row(profiled, "linear").flops == 2 * BATCH * WIDTH * HIDDEN
    assert row(profiled, "matmul").flops == 2 * BATCH * HIDDEN * BATCH
    assert row(profiled, "scaled_dot_product_attention").flops == 2 * 2 * BATCH * BATCH * HIDDEN
    assert row(profiled, "relu").flops is None


def test_bytes_count_the_rows_of_a_table_and_not_the_table(profiled: Profile):
    gathered = BATCH * WIDTH * 4
    assert row(profiled, "embedding").bytes == gathered + BATCH * 8 + gathered
    assert row(profiled, "linear").bytes == 4 * (BATCH * WIDTH + WIDTH * HIDDEN + HIDDEN + BATCH * HIDDEN)
    assert all(r.bytes == 0 for r in profiled.operations if r.op == "view")


def test_shapes_and_dtypes_are_those_of_the_inputs(profiled: Profile):
    assert row(profiled, "embedding").shapes == [[ROWS, WIDTH], [BATCH]]
    assert row(profiled, "embedding").dtypes == ["float32", "int64"]


def test_a_view_moves_nothing_and_an_expanded_tensor_no_more_than_it_repeats():
    x = torch.zeros(4, 8)
    assert moved_bytes("view", [x], [x.view(32)]) == 0
    assert moved_bytes("relu_", [x], [x]) == 4 * 8 * 4 * 2
    one = torch.zeros(1, 8).expand(4, 8)
    assert moved_bytes("add", [one, x], [torch.zeros(4, 8)]) == 8 * 4 + 2 * 4 * 8 * 4


def test_roofs_fill_the_attainable_share(tmp_path: Path):
    model = Ranker().eval()
    exported = torch.export.export(model, tuple(torch.from_numpy(a) for a in ARRAYS))
    torch.export.save(exported, tmp_path / "captured.pt2")
    roofs = {"bandwidth_bytes_per_s": 1e30, "gemm_flops_per_s": {"float32": 1e11}}
    profile = run(tmp_path, model, roofs=roofs)
    assert profile.roofs == roofs
    linear = row(profile, "linear")
    assert linear.attainable_share == pytest.approx(2 * BATCH * WIDTH * HIDDEN / 1e11 / (linear.self_ms / 1e3))


def test_a_contender_that_writes_into_its_inputs_spoils_nothing(tmp_path: Path):
    class Shrinks(torch.nn.Module):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
            return dense[ids] * 2

    model = Shrinks().eval()
    exported = torch.export.export(model, tuple(torch.from_numpy(a) for a in ARRAYS))
    torch.export.save(exported, tmp_path / "captured.pt2")
    profile = run(tmp_path, lambda ids, dense: ids.add_(10_000))
    assert {r.op for r in profile.operations} >= {"index", "mul"}
