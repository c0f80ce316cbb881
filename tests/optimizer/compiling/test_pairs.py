"""Two artifacts in one folder: put together, taken apart, loaded as one contender that chooses at every call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from optimizer.children.session import Session
from optimizer.compiling import child as compiling
from optimizer.compiling.pairs import put_together, take_apart
from optimizer.spec import Workload

WORKLOAD = Workload.model_validate(
    {
        "inputs": [
            {"name": "item", "dtype": "float32", "shape": ["batch", 2]},
            {"name": "user", "dtype": "float32", "shape": ["batch", 2]},
        ],
        "dims": {"batch": {"serve": [4], "min": 1, "max": 8}},
        "contracts": [{"same_over_batch": ["user"]}],
    }
)


def test_files_of_both_lie_side_by_side_and_come_apart_under_their_own_names(tmp_path: Path) -> None:
    usual, otherwise, both = (tmp_path / name for name in ("a", "b", "both"))
    for folder, text in ((usual, "fast"), (otherwise, "slow")):
        folder.mkdir()
        (folder / "model.xml").write_text(text)
        (folder / "model.bin").write_text(text * 2)
    both.mkdir()
    put_together(both, usual, Path("unused"), otherwise, Path("unused"))
    assert sorted(p.name for p in both.iterdir()) == [
        "model.bin", "model.xml", "otherwise-model.bin", "otherwise-model.xml",
    ]  # fmt: skip
    one, other = take_apart(both, tmp_path / "scratch")
    assert [p.read_text() for p in sorted(one.iterdir())] == ["fastfast", "fast"]
    assert [p.read_text() for p in sorted(other.iterdir())] == ["slowslow", "slow"]


def test_where_a_backend_builds_nothing_the_graph_itself_is_taken(tmp_path: Path) -> None:
    fast, slow, both = tmp_path / "fast.pt2", tmp_path / "slow.pt2", tmp_path / "both"
    fast.write_text("fast")
    slow.write_text("slow")
    both.mkdir()
    put_together(both, None, fast, None, slow)
    assert {p.name: p.read_text() for p in both.iterdir()} == {"model.pt2": "fast", "otherwise-model.pt2": "slow"}


class Answers(nn.Module):
    """Says which of the two it is."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, item: torch.Tensor, user: torch.Tensor) -> torch.Tensor:
        return item.sum(1) * 0 + user.sum(1) * 0 + self.value


@pytest.fixture
def loaded(tmp_path: Path) -> Session:
    folder = tmp_path / "both"
    folder.mkdir()
    dims = ({0: torch.export.Dim("batch", min=1, max=8)},) * 2
    for name, value in (("fast.pt2", 1.0), ("slow.pt2", 2.0)):
        program = torch.export.export(Answers(value), (torch.zeros(3, 2), torch.zeros(3, 2)), dynamic_shapes=dims)
        torch.export.save(program, tmp_path / name)
    put_together(folder, None, tmp_path / "fast.pt2", None, tmp_path / "slow.pt2")
    session = Session(fd=-1, scratch=tmp_path / "scratch")
    request = {
        "backend": "eager",
        "artifact": str(folder),
        "model": str(tmp_path / "fast.pt2"),
        "format": "pt2",
        "threads": 1,
        "workload": WORKLOAD.model_dump(by_alias=True, mode="json"),
        "promised": ["user"],
    }
    compiling.load(session, request, [])
    return session


def test_a_loaded_pair_answers_by_what_the_promised_input_holds(loaded: Session) -> None:
    contender = loaded.state["contender"]

    def answer(user: np.ndarray) -> list[float]:
        item = np.arange(8, dtype=np.float32).reshape(4, 2)
        (output,) = contender.outputs(contender.call(contender.stage([item, user])))
        return output.tolist()  # type: ignore[no-any-return]

    same = np.ones((4, 2), np.float32)
    assert answer(same) == [1.0] * 4
    for row in (1, 3):
        broken = same.copy()
        broken[row, 1] = 0.5
        assert answer(broken) == [2.0] * 4
    assert (contender.device, contender.inference_precision) == ("cpu", "float32")
