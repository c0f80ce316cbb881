"""Markdown out of strangers' words: printed as they are, never markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from optimizer.diagnosing.exporting.figures import plain

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&]|:(?=//)|^[#+-])")
_FENCES = re.compile(r"`+")


def text(value: object) -> str:
    """Printed as it is, whatever it contains."""
    return _SPECIAL.sub(r"\\\1", plain(value))


def code(value: object) -> str:
    """In as many ticks as the text itself needs; a bar would end a table's cell even there."""
    shown = plain(value).replace("|", "¦")
    fence = "`" * (1 + max((len(run) for run in _FENCES.findall(shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> Iterator[str]:
    """Cells are Markdown already. `numbers`: columns that stand right."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---:' if at in numbers else '---' for at in range(len(head)))}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
