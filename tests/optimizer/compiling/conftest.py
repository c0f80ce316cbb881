"""Models as files, and one child that builds whatever needs no compiler, once per session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.optimizer.compiling.support import Builder, export, ranker


class Exotic(torch.nn.Module):
    """An operation that neither ONNX nor OpenVINO has."""

    def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(dense.T @ dense).real + ids.sum() + keep.sum()


class Writes(torch.nn.Module):
    def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return dense.add_(1.0) * 2


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    programs = {
        "ranker": export(ranker()),
        "static": export(ranker(), batch=5, dynamic=False),
        "exotic": export(Exotic()),
        "writes": export(Writes()),
    }
    for name, program in programs.items():
        torch.export.save(program, folder / f"{name}.pt2")
    exported = torch.onnx.export(programs["ranker"], dynamo=True, verbose=False, report=False)
    assert exported is not None
    exported.save(str(folder / "ranker.onnx"))
    return {name: folder / f"{name}.pt2" for name in programs} | {"onnx": folder / "ranker.onnx"}


@pytest.fixture(scope="session")
def builder(models: dict[str, Path]) -> Iterator[Builder]:
    with Builder(models) as shared:
        yield shared
