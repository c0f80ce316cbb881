"""Brings the catalogues of translations up to date with the texts of pages and code: `make messages`.

Finds the texts by itself (Django's own reading of templates, Python's of Python), so the gettext tools are not needed.
Errors are in the catalogue by id (`error_texts.py`), with their English text as a note: `core/telling.py` says why.
What was translated stays, what is new is added untranslated, what is gone is dropped. A test fails until every text has
a translation. Run it in .venv; set-up compiles what it leaves (`catalogue.py`).
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

from django.utils.translation.template import templatize

import error_texts
from catalogue import Key, Message, compile_all, read, write

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "frontend" / "locale"
PYTHON, TEMPLATES = ROOT / "platform" / "fuseworks", ROOT / "frontend" / "templates"

# Arguments of a translating function, in order: c context, i text, p plural.
FUNCTIONS = {"_": "i", "gettext": "i", "ngettext": "ip", "pgettext": "ci", "npgettext": "cip"}
FUNCTIONS |= {f"{name}_lazy": arguments for name, arguments in FUNCTIONS.items() if name != "_"}
FUNCTIONS["gettext_noop"] = "i"

_LITERAL = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_CALL = re.compile(rf"\b(npgettext|ngettext|pgettext|gettext|_)\(({_LITERAL}(?:\s*,\s*{_LITERAL})*)")


class NotATranslatableText(ValueError):
    """A translating function is given something that is no plain text: it could never be found in a catalogue."""


def extract() -> dict[Key, Message]:
    """Every text of templates and code by context and text, in the order of files."""
    found: dict[Key, Message] = {}
    for path in sorted(TEMPLATES.rglob("*.html")):
        _add(found, in_template(path.read_text(encoding="utf-8")), path)
    for path in sorted(PYTHON.rglob("*.py")):
        _add(found, in_python(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()), path)
    return found | {message.key: message for message in error_texts.messages()}


def in_template(text: str) -> list[Message]:
    messages = []
    for call in _CALL.finditer(templatize(text)):
        literals = [ast.literal_eval(literal) for literal in re.findall(_LITERAL, call[2])]
        messages.append(_called(call[1], literals))
    return messages


def in_python(text: str, name: str = "<text>") -> list[Message]:
    """Raises NotATranslatableText, for an f-string above all."""
    messages = []
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            continue
        arguments = node.args[: len(FUNCTIONS[node.func.id])]
        literals = [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if len(literals) != len(FUNCTIONS[node.func.id]):
            raise NotATranslatableText(f"{name}:{node.lineno}: {ast.unparse(node)}")
        messages.append((node.lineno, node.col_offset, _called(node.func.id, literals)))
    return [message for _, _, message in sorted(messages, key=lambda found: found[:2])]


def _called(function: str, literals: list[str]) -> Message:
    given = dict(zip(FUNCTIONS[function], literals, strict=False))
    return Message(given["i"], given.get("c"), given.get("p"))


def _add(found: dict[Key, Message], messages: list[Message], path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    for message in messages:
        known = found.setdefault(message.key, message)
        known.plural = known.plural or message.plural
        if place not in known.places:
            known.places.append(place)


def merged(old: dict[Key, Message], found: dict[Key, Message]) -> dict[Key, Message]:
    """The old header and translations, with the texts and places of today.

    An error whose English text was changed has to be translated anew.
    """
    forms = int(re.search(r"nplurals=(\d+)", old[None, ""].strings[0])[1])  # type: ignore[index]
    new: dict[Key, Message] = {(None, ""): old[None, ""]}
    for key, message in found.items():
        count = forms if message.plural is not None else 1
        known = old.get(key)
        fits = known is not None and len(known.strings) == count and known.note == message.note
        strings = known.strings if known is not None and fits else [""] * count
        new[key] = replace(message, strings=strings)
    return new


def main() -> int:
    found = extract()
    for path in sorted(LOCALE.rglob("*.po")):
        new = merged(read(path), found)
        write(path, new)
        missing = [message.text for message in new.values() if not message.is_translated]
        print(f"{path.relative_to(ROOT)}: {len(new) - 1} texts, {len(missing)} without a translation.")
        for text in missing:
            print(f"    {text}")
    compile_all(LOCALE)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
