"""The file that a check on a GPU leaves: what ran where, and each step with its outcome. Saved after every step.

A step that is done stays done: the same call goes on where it was cut, as long as place, mode and source are the same.
JSON, no torch.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SCHEMA_VERSION = "1.0"
ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("kernels", "benchmarks/gpu_check", "optimizer/optimizing")
PREDICTED = ("kernels", "optimizer/optimizing", "optimizer/predicting", "examples")
"""What decides the predictions that are kept."""
DONE = ("passed", "wrong")
"""What is not tried again. `failed`, `cut` and `left_out` are."""


class Record:
    """Not for two processes at once. `steps` by name, in the order in which they were first told of."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path = path
        self.head = head
        self.steps: dict[str, dict[str, Any]] = {}
        self.anew: str | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path, head: dict[str, Any], *, anew: bool = False) -> Record:
        """Goes on with the file's steps where its head says the same. `anew` then says why it does not."""
        record = cls(path, head)
        if not path.exists():
            return record
        kept = json.loads(path.read_text(encoding="utf-8"))
        differing = [name for name in IDENTITY if _of(kept, name) != _of(head, name)]
        if anew:
            record.anew = "it was asked for"
        elif kept.get("schema_version") != SCHEMA_VERSION or differing:
            record.anew = f"another {', another '.join(differing) or 'schema'} than the file's"
        else:
            record.steps = kept["steps"]
        return record

    def open_steps(self, names: list[str]) -> list[str]:
        """Those that are still to be done."""
        return [name for name in names if self.steps.get(name, {}).get("status") not in DONE]

    def told(self, name: str, outcome: dict[str, Any]) -> None:
        """Of one step; saved at once."""
        with self._lock:
            self.steps[name] = outcome
            self.save()

    def document(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **self.head, "steps": self.steps}

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_suffix(".part")
        half.write_text(json.dumps(self.document(), indent=1) + "\n", encoding="utf-8")
        half.replace(self.path)


IDENTITY = ("mode", "source", "place.device", "place.torch", "place.triton", "place.driver")


def _of(document: dict[str, Any], name: str) -> Any:
    found: Any = document
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def source(folders: Sequence[str] = SOURCES) -> str:
    """Digest of all that decides what is run: by default the kernels, the passes, and this check itself."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
