"""Tiny uploads and a session without a wire, for the capture's tests."""

from __future__ import annotations

import textwrap
import zipfile
from pathlib import Path
from typing import Any

from optimizer.capturing.child import OPERATIONS
from optimizer.capturing.outline import Outline
from optimizer.spec import Workload

HEADER = """\
import torch
import torch.nn as nn

"""


class LocalSession:
    """Keeps what the capture would send."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.files: dict[str, Path] = {}

    def send_file(self, name: str, path: Path) -> None:
        self.files[name] = path

    def progress(self, message: str, **data: Any) -> None:
        pass


class Answer:
    def __init__(self, fields: dict[str, Any], session: LocalSession) -> None:
        self.workload = Workload.model_validate(fields["workload"])
        self.inspection: dict[str, Any] = fields["inspection"]
        self.outline = Outline.model_validate(fields["outline"]) if fields.get("outline") is not None else None
        self.files = session.files

    @property
    def values(self) -> dict[str, dict[str, Any]]:
        """What was filled in, by input, defaults left out."""
        return {
            i.name: i.values.model_dump(by_alias=True, exclude_defaults=True) if i.values else {}
            for i in self.workload.inputs
        }


def capture(path: Path, scratch: Path, *, workload: Any = None, format: str | None = None, **fields: Any) -> Answer:
    scratch.mkdir(parents=True, exist_ok=True)
    session = LocalSession(scratch)
    request = {"upload": str(path), "format": format or path.suffix[1:], "workload": workload, "seed": 7, **fields}
    answer, arrays = OPERATIONS["capture"](session, request, [])  # type: ignore[arg-type]
    assert arrays == []
    return Answer(answer, session)


def module(folder: Path, body: str, *, inputs: str = "[torch.randn(16, 8)]", extra: str = "") -> Path:
    """A `model.py` whose `Model.__init__` and `forward` are `body`; its first line is line 5 of the file."""
    text = HEADER + "class Model(nn.Module):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    text += f"\n\ndef get_inputs():\n    return {inputs}\n" + textwrap.dedent(extra)
    path = folder / "model.py"
    path.write_text(text)
    return path


def line_of(path: Path, words: str) -> int:
    """The number of the one line that holds `words`."""
    found = [number for number, line in enumerate(path.read_text().splitlines(), 1) if words in line]
    assert len(found) == 1, f"{words!r} is on lines {found}"
    return found[0]


def zipped(folder: Path, files: dict[str, Path | str | bytes]) -> Path:
    path = folder / "upload.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content.read_bytes() if isinstance(content, Path) else content)
    return path
