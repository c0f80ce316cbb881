"""Brings the files of a package together from what a backend built, or from the graph itself where nothing is built."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import optimizer.packaging.errors  # noqa: F401 -- files the error texts
from optimizer.errors import FuseworksError

OWN_OPERATIONS = b"torch.ops.fuseworks."


def collect(folder: Path, backend: str, artifact: Path | None, model: Path | None) -> None:
    """Copies the artifact's flat files into `folder`. Raises FuseworksError `packaging:ours:...`."""
    files = sorted(p for p in artifact.iterdir() if p.is_file()) if artifact is not None else []
    if files:
        for path in files:
            shutil.copyfile(path, folder / path.name)
    elif model is not None:
        shutil.copyfile(model, folder / f"model{model.suffix}")
    else:
        raise FuseworksError("packaging:ours:no-artifact", backend=backend, text="neither an artifact nor a model")
    for path in folder.glob("*.pt2"):
        if backend not in {"aot_inductor", "torchao"} and _needs_fuseworks(path):
            raise FuseworksError("packaging:ours:not-lowered", place=path.name)


def _needs_fuseworks(path: Path) -> bool:
    """Whether the saved graph calls an operation of our own kernel library, which a package does not bring along."""
    with zipfile.ZipFile(path) as archive:
        graphs = [n for n in archive.namelist() if n.endswith(".json")]
        return any(OWN_OPERATIONS in archive.read(name) for name in graphs)
