"""Reads a large JSON document piece by piece: the keys of its object, and the values of one array, one at a time.

Only one value is ever held. It forgives what profilers write and JSON forbids: a trailing comma, a control character in
a name, NaN and Infinity (read as null).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from optimizer.diagnosing import errors as _errors  # noqa: F401  its ids must be in the catalogue
from optimizer.errors import FuseworksError

MAX_VALUE_CHARS = 16 << 20  # a hostile one takes some 20 times as much once it is read
_SPACE = re.compile(r"[ \t\n\r]*").match
_BETWEEN = re.compile(r"[ \t\n\r]*(?:,[ \t\n\r]*)?").match
_NO_VALUE = (StopIteration, json.JSONDecodeError)


class JsonStream:
    """Raises FuseworksError: `diagnosing:user:not-json`, `diagnosing:user:cut-off`."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text, self._at = "", 0
        self._chars_before = 0
        self.values = 0  # of arrays so far
        self._scan = json.JSONDecoder(strict=False, parse_constant=lambda _: None).scan_once  # type: ignore[attr-defined]

    def opening(self) -> str:
        """`{` or `[`, which is then read; "" where the document begins with neither."""
        mark = self._peek()
        if mark not in ("{", "["):
            return ""
        self._at += 1
        return mark

    def each_key(self) -> Iterator[str]:
        """Of the object that was opened. Whoever gets a key reads its value (`value` or `array`) before the next."""
        while (mark := self._peek()) != "}":
            if mark == ",":
                self._at += 1
                continue
            key = self.value()
            if not isinstance(key, str) or self._peek() != ":":
                self._refuse("a key of its object is amiss")
            self._at += 1
            yield key
        self._at += 1

    def value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except _NO_VALUE as error:
                self._grow(error)
            except (ValueError, RecursionError) as error:
                self._refuse(str(error))
            else:
                if end < len(self._text) or not self._more():  # a number may go on in the next piece
                    self._at = end
                    return value

    def array(self) -> Iterator[Any]:
        """The values of the array that comes next."""
        if self._peek() != "[":
            self._refuse("where its events should be there is no list")
        self._at += 1
        yield from self.rest_of_array()

    def rest_of_array(self) -> Iterator[Any]:
        """The same once its `[` was read."""
        scan, text, at = self._scan, self._text, self._at
        while True:
            at = _BETWEEN(text, at).end()  # type: ignore[union-attr]  # it matches the empty string too
            if at >= len(text):
                self._at = at
                if not self._more():
                    self._cut_off("its list of events is not closed")
                text, at = self._text, self._at
                continue
            if text[at] == "]":
                self._at = at + 1
                return
            try:
                value, at = scan(text, at)
            except _NO_VALUE as error:
                self._at = at
                self._grow(error)
                text, at = self._text, self._at
                continue
            except (ValueError, RecursionError) as error:
                self._at = at
                self._refuse(str(error))
            self.values += 1
            yield value

    def _peek(self) -> str:
        """The next character that is no space."""
        while True:
            self._at = _SPACE(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                self._cut_off("its object is not closed")

    def _more(self) -> bool:
        """Reads on, what was used up is dropped. False at the end."""
        for piece in self._pieces:
            if piece:
                self._chars_before += self._at
                self._text, self._at = self._text[self._at :] + piece, 0
                return True
        return False

    def _grow(self, error: Exception) -> None:
        """A value that does not end here may end in the next piece."""
        held = len(self._text) - self._at
        if held > MAX_VALUE_CHARS:
            self._refuse(f"one of its values has more than {MAX_VALUE_CHARS >> 20} MiB, or none ends there")
        if self._more():
            return
        if isinstance(error, json.JSONDecodeError) and error.pos < len(self._text) - 1 and "Unterm" not in error.msg:
            self._refuse(error.msg)
        self._cut_off("a value is not closed")

    def _refuse(self, text: str) -> NoReturn:
        where = f"at character {self._chars_before + self._at}"
        raise FuseworksError("diagnosing:user:not-json", place=where, text=text[:300])

    def _cut_off(self, text: str) -> NoReturn:
        if self._chars_before + len(self._text) == 0:
            raise FuseworksError("diagnosing:user:foreign", what="an empty file")
        raise FuseworksError("diagnosing:user:cut-off", events=self.values, text=text)
