"""The noise floor that a worker last measured, kept over its restarts: how much two equal contenders differ on it.

Only what a finished run really measured: without one there is none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from pathlib import Path
from typing import Any

from optimizer.result import Result

log = logging.getLogger(__name__)


def of(result: Result) -> dict[str, Any] | None:
    """The floor of the result's first comparison, with the conditions under which it was measured."""
    if result.conditions is None or not result.comparisons:
        return None
    first = result.comparisons[0]
    floor = first.noise_floor
    if not math.isfinite(floor) or first.reason is not None:  # too few pairs for a verdict: mostly ignorance
        return None
    return {
        "noise_floor": floor,
        "noise_floor_conditions": {
            "fingerprint": result.conditions.fingerprint,
            "pairs": first.pairs,
            "observed": json.loads(result.conditions.model_dump_json())["observed"],
        },
    }


def remember(folder: Path, worker: str, result: Result) -> None:
    """A disk that does not take it costs nothing else: the run is told already."""
    floor = of(result)
    if floor is None:
        return
    path = _path(folder, worker)
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(json.dumps(floor))
        partial.replace(path)
    except OSError as error:
        log.error("the noise floor could not be kept: %s", error)


def recall(folder: Path, worker: str) -> dict[str, Any]:
    """For the hello: empty when none is known."""
    try:
        document = json.loads(_path(folder, worker).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("the noise floor of earlier runs cannot be read: %s", error)
        return {}
    return {name: document[name] for name in ("noise_floor", "noise_floor_conditions") if name in document}


def _path(folder: Path, worker: str) -> Path:
    return folder / f"noise-floor-{hashlib.sha256(worker.encode()).hexdigest()[:12]}.json"
