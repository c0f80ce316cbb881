"""Catalogues of translations: reads and writes `.po` files, compiles them to `.mo`. Standard library only.

Set-up compiles, so that no machine needs the gettext tools. Knows what our own files use: blocks between blank lines,
contexts, plurals, comments that say where a text stands. Not for foreign files: obsolete entries, other encodings.
"""

from __future__ import annotations

import ast
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

MAGIC = 0x950412DE
CONTEXT_SEPARATOR, PLURAL_SEPARATOR = "\x04", "\0"
Key = tuple[str | None, str]


class BadCatalogue(ValueError):
    """A line that is no part of a catalogue, or a text that stands there twice; the message names the place."""


@dataclass
class Message:
    """`strings`: one translation, or one for each plural form. `places`: the files in which the text stands. `note`:
    the English text, one line, where `id` is a name and no text (errors)."""

    id: str
    context: str | None = None
    plural: str | None = None
    strings: list[str] = field(default_factory=lambda: [""])
    places: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def text(self) -> str:
        """What is to be translated."""
        return self.note or self.id

    @property
    def key(self) -> Key:
        return (self.context, self.id)

    @property
    def is_translated(self) -> bool:
        return all(self.strings)


_LINE = re.compile(r'^(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s+)?(".*")$')


def read(path: Path) -> dict[Key, Message]:
    """The messages of a `.po` file by context and text; its header is the message of the empty text.

    Raises BadCatalogue.
    """
    messages: dict[Key, Message] = {}
    for block in re.split(r"\n(?:[ \t]*\n)+", path.read_text(encoding="utf-8").strip("\n")):
        message = _message(block, path)
        if message.key in messages:
            raise BadCatalogue(f"{path}: {message.id!r} stands there twice")
        messages[message.key] = message
    return messages


def _message(block: str, path: Path) -> Message:
    texts: dict[str, str] = {}
    places: list[str] = []
    keyword = note = ""
    for line in block.splitlines():
        if line.startswith("#."):
            note = line[3:]
            continue
        if line.startswith("#"):
            places += line[2:].split() if line.startswith("#:") else []
            continue
        match = _LINE.match(line)
        if match is None or not (match[1] or keyword):
            raise BadCatalogue(f"{path}: {line!r}")
        keyword = match[1] or keyword
        texts[keyword] = texts.get(keyword, "") + ast.literal_eval(match[2])
    if "msgid" not in texts:
        raise BadCatalogue(f"{path}: a block without msgid: {block!r}")
    strings = [text for name, text in sorted(texts.items()) if name.startswith("msgstr")]
    return Message(texts["msgid"], texts.get("msgctxt"), texts.get("msgid_plural"), strings, places, note)


def write(path: Path, messages: dict[Key, Message]) -> None:
    """In the order given, the header first."""
    path.write_text("\n".join(_block(message) for message in messages.values()), encoding="utf-8")


def _block(message: Message) -> str:
    lines = [f"#. {message.note}"] if message.note else []
    lines += [f"#: {place}" for place in message.places]
    if message.context is not None:
        lines.append(f"msgctxt {_quoted(message.context)}")
    lines.append(f"msgid {_quoted(message.id)}")
    if message.plural is None:
        lines.append(f"msgstr {_quoted(message.strings[0])}")
    else:
        lines.append(f"msgid_plural {_quoted(message.plural)}")
        lines += [f"msgstr[{number}] {_quoted(text)}" for number, text in enumerate(message.strings)]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """One line, or one for each line of the text below an empty one."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
    if "\\n" not in escaped:
        return f'"{escaped}"'
    lines = [f'"{part}\\n"' for part in escaped.split("\\n")]
    lines[-1] = lines[-1].removesuffix('\\n"') + '"'
    return "\n".join(['""', *[line for line in lines if line != '""']])


def compiled(messages: dict[Key, Message]) -> bytes:
    """The `.mo` form of what is translated: tables of lengths and offsets, texts sorted by their bytes."""
    pairs = []
    for message in messages.values():
        if message.is_translated:
            context = "" if message.context is None else message.context + CONTEXT_SEPARATOR
            plural = "" if message.plural is None else PLURAL_SEPARATOR + message.plural
            pairs.append(((context + message.id + plural).encode(), PLURAL_SEPARATOR.join(message.strings).encode()))
    pairs.sort()
    count, header_bytes, row_bytes = len(pairs), 28, 8
    offset = header_bytes + 2 * row_bytes * count
    tables: list[bytes] = []
    data = b""
    for column in (0, 1):
        for pair in pairs:
            text = pair[column]
            tables.append(struct.pack("<II", len(text), offset + len(data)))
            data += text + b"\0"
    header = struct.pack("<7I", MAGIC, 0, count, header_bytes, header_bytes + row_bytes * count, 0, offset)
    return header + b"".join(tables) + data


def compile_all(folder: Path) -> list[Path]:
    """Compiles each `.po` below `folder` beside itself; answers what changed."""
    changed = []
    for source in sorted(folder.rglob("*.po")):
        result = source.with_suffix(".mo")
        content = compiled(read(source))
        if not result.exists() or result.read_bytes() != content:
            result.write_bytes(content)
            changed.append(result)
    return changed
