"""Folders of recordings, a machine each: a header that must stay the same, and files to which lines are added one by
one, so that a recording which was cut goes on. What a line holds is its benchmark's own."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

HEADER = "recording.json"
LineT = TypeVar("LineT", bound=BaseModel)


class RecordingError(Exception):
    """The message says which file, what is wrong with it and what to do."""


def begin(folder: Path, header: BaseModel, *, may_differ: Collection[str]) -> None:
    """Writes the header of a new folder. Raises RecordingError where the folder holds what these would not go with."""
    file = folder / HEADER
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(header.model_dump_json(indent=2) + "\n")
        return
    kept = type(header).model_validate_json(file.read_text())
    there, new = (one.model_dump(exclude=set(may_differ)) for one in (kept, header))
    other = [name for name in new if new[name] != there[name]]
    if other:
        raise RecordingError(
            f"{file} has another {' and '.join(other)}: remove the folder, or record elsewhere (--out)"
        )


def lines(file: Path, kind: type[LineT], called: str) -> list[LineT]:
    """In the order of their recording; none where there is no file. Raises RecordingError."""
    found = []
    for number, line in enumerate(file.read_text().splitlines() if file.exists() else [], 1):
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError as error:
            raise RecordingError(f"{file}:{number} is no recorded {called}; remove the line: {error}") from error
    return found


def append(file: Path, one: BaseModel) -> None:
    with file.open("a") as opened:
        opened.write(one.model_dump_json(exclude_defaults=True) + "\n")


def last(root: Path, command: str) -> Path:
    """The folder to which a line was added last. Raises RecordingError."""
    folders = [file.parent for file in root.glob(f"*/{HEADER}")]
    if not folders:
        raise RecordingError(f"nothing is recorded in {root}: {command}")
    return max(folders, key=lambda folder: max(file.stat().st_mtime for file in folder.iterdir()))
