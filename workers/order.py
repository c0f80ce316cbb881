"""The order for the coordinator: the claim's files fetched into the scratch, and the spec that names them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from optimizer.spec import Purpose, RunSpec
from workers.api import Claim, File, WorkerApi
from workers.http import GoOn
from workers.scratch import PASS_THROUGH

UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST_NAME = 100


def place_order(claim: Claim, api: WorkerApi, scratch: Path, *, out: Path, go_on: GoOn) -> Path:
    """Returns the spec's path; the answer will be in `out`. Raises Stale, Unreachable, FuseworksError, OSError."""
    out.mkdir()
    files = {"model": claim.files.model, "against": claim.files.against}
    here = {role: str(_fetch(role, file, api, scratch, go_on)) for role, file in files.items() if file is not None}
    if claim.purpose == Purpose.COMPARE and "against" in here:
        # the platform's `against` is the version before, and so the base; the spec's is the other one
        here = {"model": here["against"], "against": here["model"]}
    recipe = None
    if claim.recipe is not None:
        recipe = scratch / "recipe.yaml"
        recipe.write_text(json.dumps(claim.recipe))  # JSON is YAML
    spec = RunSpec(
        purpose=claim.purpose,
        model=here["model"],
        against=here.get("against"),
        workload=claim.workload,
        target=claim.target,
        policy=claim.policy,
        recipe=str(recipe) if recipe else None,
        out=str(out),
    )
    path = scratch / "spec.json"
    path.write_text(spec.model_dump_json(by_alias=True))
    return path


def _fetch(role: str, file: File, api: WorkerApi, scratch: Path, go_on: GoOn) -> Path:
    """A folder for each: both uploads of a comparison may have one name."""
    folder = scratch / role
    folder.mkdir()
    path = folder / safe_name(file.filename)
    api.download(file, path, go_on=go_on)
    folder.chmod(PASS_THROUGH)
    path.chmod(0o644)  # else the sandbox copies it for the uid that its child drops to
    return path


def safe_name(filename: str) -> str:
    """The user's name as far as it is harmless: it shows in messages, and its ending tells the format."""
    name = UNSAFE.sub("_", filename.replace("\\", "/").rpartition("/")[2]).lstrip(".-")
    stem, dot, ending = name.rpartition(".")
    return f"{stem[: LONGEST_NAME - len(ending) - 1]}{dot}{ending}" if stem else name[:LONGEST_NAME] or "model"
