"""The runs of a suite: a folder each, which is kept, so that a suite that was cut can go on where it ended.

A run is not repeated when its model's bytes and all that was asked are the same and it came to an outcome: an answer,
or a failure that is the model's own. What failed by our fault or was cut is tried again.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from fuseworks_client import exits
from fuseworks_client.run import no_result_problem, read_result, work
from fuseworks_client.suite.found import Found

STATE = "run.json"
# A run ends itself soon after its budget. This is for one that does not.
LIMIT_SHARE, LIMIT_S = 2.0, 1200.0
HEAVY = ("package", "package.zip")  # `fuseworks optimize` makes them again; a suite of hundreds would fill the disk


class Run(NamedTuple):
    """`result` always has a status, and a problem where the run came to no answer of its own."""

    model: Found
    number: int
    code: int
    wall_s: float
    result: dict[str, Any]

    @property
    def has_outcome(self) -> bool:
        return self.code in (exits.DONE, exits.USER)


def kept(model: Found, number: int, folder: Path, asked: dict[str, Any]) -> Run | None:
    """What an earlier suite left in `folder`, where it answers the same question."""
    state, result = _state(folder / STATE), read_result(folder)
    if state is None or result is None or state.get("asked") != {**asked, "sha256": model.sha256}:
        return None
    run = Run(model, number, int(state["code"]), float(state["wall_s"]), result)
    return run if run.has_outcome else None


def perform(
    model: Found, number: int, folder: Path, spec: dict[str, Any], asked: dict[str, Any], console: Console
) -> Run:
    """Runs the optimizer. `spec` is the run's without model and `out`; what an earlier run left in `folder` goes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    limit_s = LIMIT_SHARE * float(asked["budget_s"]) + LIMIT_S
    full = {**spec, "model": str(model.path), "out": str(folder.absolute())}
    code = work(full, folder, console, limit_s=limit_s)
    wall_s = round(time.monotonic() - began, 1)
    result = read_result(folder)
    if result is None:
        result = {"status": "errored", "problem": no_result_problem(folder, code)}
        code = code if code in (exits.USAGE, exits.INTERRUPTED) else exits.OURS
    elif code not in (exits.DONE, exits.USER, exits.INTERRUPTED):
        code = exits.OURS
    _lighten(folder)
    state = {"asked": {**asked, "sha256": model.sha256}, "code": code, "wall_s": wall_s}
    (folder / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    return Run(model, number, code, wall_s, result)


def _lighten(folder: Path) -> None:
    for name in HEAVY:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _state(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document
