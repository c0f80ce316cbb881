"""Where the time goes as an icicle in inline SVG: the model's modules from the outside in, and their operations below.

Widths are times; a cell names itself and its time when one points at it. What is too narrow to see is left out, and is
in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from optimizer.reporting import words
from optimizer.reporting.charts import MARGIN, WIDTH, opened, shortened
from optimizer.result import Operation

ROW, LEAST_WIDTH, LABELLED_WIDTH, CHAR = 24, 1.0, 34.0, 8.6
MOST_DEEP, MOST_CELLS, COLOURS = 14, 1_500, 6


@dataclass
class Cell:
    """A module with what is in it, or an operation. `ms` includes all below."""

    name: str
    is_module: bool
    ms: float = 0.0
    path: str = ""
    inside: dict[tuple[bool, str], Cell] = field(default_factory=dict)

    def below(self, name: str, is_module: bool) -> Cell:
        path = ".".join(filter(None, (self.path, name)))
        return self.inside.setdefault((is_module, name), Cell(name, is_module, path=path))

    def ordered(self) -> list[Cell]:
        return sorted(self.inside.values(), key=lambda cell: -cell.ms)


def tree(operations: Sequence[Operation], root: str = "call") -> Cell:
    """Of a training step the phases come first."""
    whole = Cell(root, is_module=True)
    for row in operations:
        names: list[str] = [row.phase] if row.phase else []
        names += row.module.split(".")[: MOST_DEEP - 2] if row.module else []
        cell = whole
        cell.ms += row.self_ms
        for name in names:
            cell = cell.below(name, True)
            cell.ms += row.self_ms
        leaf = cell.below(row.op, False)
        leaf.ms += row.self_ms
    return whole


def icicle(operations: Sequence[Operation], title: str) -> Markup:
    """Nothing where no operation takes time."""
    whole = tree(operations)
    if whole.ms <= 0:
        return Markup("")
    cells = list(_placed(whole, 0, MARGIN, WIDTH - 2.0 * MARGIN))[:MOST_CELLS]
    ops = {op: at % COLOURS for at, op in enumerate(_by_time(operations))}
    parts = [opened(ROW * (1 + max(depth for _, depth, _, _ in cells)) + 16, title)]
    for cell, depth, x, width in cells:
        tone = "module" if cell.is_module else f"op f{ops[cell.name]}"
        y = 8 + ROW * depth
        about = shortened(f"{cell.path or cell.name}: {words.milliseconds(cell.ms)}, {cell.ms / whole.ms:.1%}", 200)
        parts.append(f"<g><title>{about}</title>")
        parts.append(f'<rect class="cell {tone}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 2}"/>')
        if width >= LABELLED_WIDTH:
            name = shortened(cell.name, int((width - 8) / CHAR))
            parts.append(f'<text class="label" x="{x + 4:.1f}" y="{y + 16}">{name}</text>')
        parts.append("</g>")
    parts.append("</svg>")
    return Markup("".join(parts))  # numbers, and names that were escaped


def _by_time(operations: Sequence[Operation]) -> list[str]:
    ms: dict[str, float] = {}
    for row in operations:
        ms[row.op] = ms.get(row.op, 0.0) + row.self_ms
    return sorted(ms, key=lambda op: (-ms[op], op))


def _placed(cell: Cell, depth: int, x: float, width: float) -> Iterator[tuple[Cell, int, float, float]]:
    """(cell, depth, left, width); the longest first."""
    yield cell, depth, x, width
    for one in cell.ordered():
        share = one.ms / cell.ms * width if cell.ms else 0.0
        if share >= LEAST_WIDTH:
            yield from _placed(one, depth + 1, x, share)
        x += share
