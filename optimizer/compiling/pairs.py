"""Two artifacts of one backend in one flat folder: what usually runs, and what runs where a promise is broken.

No torch here: the coordinator puts pairs together, a child takes them apart.
"""

from __future__ import annotations

import shutil
from pathlib import Path

OTHERWISE = "otherwise-"
ENTRY = "model.pt2"  # of a backend that builds nothing: the graph itself


def put_together(
    folder: Path, usual: Path | None, usual_model: Path, otherwise: Path | None, otherwise_model: Path
) -> None:
    """Copies both artifacts' files into `folder`; where one is None, its model."""
    for prefix, artifact, model in (("", usual, usual_model), (OTHERWISE, otherwise, otherwise_model)):
        if artifact is None:
            shutil.copyfile(model, folder / f"{prefix}{ENTRY}")
            continue
        for path in artifact.iterdir():
            shutil.copyfile(path, folder / f"{prefix}{path.name}")


def take_apart(folder: Path, scratch: Path) -> tuple[Path, Path]:
    """Folders below `scratch` that show each artifact's files under the names that it was built with."""
    usual, otherwise = scratch / "usual", scratch / "otherwise"
    for target in (usual, otherwise):
        target.mkdir(parents=True)
    for path in folder.iterdir():
        target = otherwise if path.name.startswith(OTHERWISE) else usual
        (target / path.name.removeprefix(OTHERWISE)).symlink_to(path)
    return usual, otherwise
