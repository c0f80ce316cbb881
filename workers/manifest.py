"""What this worker's optimizer can do, asked of `python -m optimizer manifest`: passes, kernels, backends, devices.

Asked before the first run is taken: it imports torch in a process of its own, which would disturb a measurement.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from workers.coordinator import environment
from workers.settings import Settings

ASK_S = 600.0
TOLD_CHARACTERS = 2000


class NoOptimizer(Exception):
    """The optimizer does not work here: no run could."""


def ask(settings: Settings) -> dict[str, Any]:
    """Raises NoOptimizer with what it printed."""
    command = [*settings.coordinator, "manifest", "--target", settings.target]
    given = environment(Path(tempfile.gettempdir()))
    try:
        answer = subprocess.run(command, capture_output=True, text=True, env=given, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoOptimizer(f"{' '.join(command)}: {error}") from error
    if answer.returncode != 0:
        raise NoOptimizer(f"{' '.join(command)} ended with {answer.returncode}: {answer.stderr[-TOLD_CHARACTERS:]}")
    try:
        document: dict[str, Any] = json.loads(answer.stdout)
    except ValueError as error:
        raise NoOptimizer(f"{' '.join(command)} printed no JSON: {error}") from error
    return document
