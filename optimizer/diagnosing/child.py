"""Operation `diagnosing.read_trace`: a stranger's trace, read in a child of its own. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from optimizer.children.session import Session
from optimizer.diagnosing.traces.recording import read
from optimizer.diagnosing.traces.source import pieces
from optimizer.diagnosing.traces.summary import summarize


def read_trace(
    session: Session, request: dict[str, Any], arrays: list[np.ndarray]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """{path, member?, name} → {trace}: one rank, as `traces.document.RankTrace`."""
    recording = read(pieces(Path(request["path"]), request.get("member")))
    return {"trace": summarize(recording, str(request["name"])).model_dump(mode="json")}, []


OPERATIONS = {"read_trace": read_trace}
