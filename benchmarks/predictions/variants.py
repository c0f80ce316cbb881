"""Variants of a model, made by scaling the numbers in its own file: batch, other sizes, widths, counts of layers.

By structure, never by a model's own names: constants of the module in capitals are sizes, defaults of the model's
constructor are widths, or counts where they are small. Only literals are changed, in their place, so that lines stay
what they are. No variant where scaling changes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BATCH, SEEDS = "BATCH", {"SEED"}
MOST_COUNTED = 9  # a default up to it is a number of layers, heads or experts; beyond it a width
Factors = dict[str, float]
# In this order, as many as are asked for; the original comes first of all.
PLANS: tuple[Factors, ...] = (
    {"batch": 4},
    {"widths": 0.5},
    {"sizes": 0.5},
    {"batch": 0.25},
    {"widths": 2},
    {"counts": 0.5},
    {"counts": 2},
    {"batch": 2},
    {"batch": 0.5},
    {"batch": 4, "widths": 0.5},
    {"batch": 0.5, "widths": 2},
    {"sizes": 0.5, "widths": 0.5},
)


class Variant(NamedTuple):
    """`model`: the stem of the file that it was made of; `factors`: what was scaled, empty for the original."""

    model: str
    factors: Factors
    source: str

    @property
    def name(self) -> str:
        told = ", ".join(f"{kind} x{factor:g}" for kind, factor in self.factors.items())
        return f"{self.model} ({told or 'as it is'})"


class _Number(NamedTuple):
    kind: str
    node: ast.expr
    value: int


def variants(file: Path, count: int) -> list[Variant]:
    """The model as it is, then at most `count` variants of it, no two alike."""
    source = file.read_text()
    found = {source: Variant(file.stem, {}, source)}
    for factors in PLANS:
        if len(found) > count:
            break
        text = scaled(source, factors)
        found.setdefault(text, Variant(file.stem, factors, text))
    return list(found.values())


def in_turn(files: list[Path], count: int) -> list[Variant]:
    """All models as they are, then the first variant of each, and so on: what was cut has seen all of them."""
    by_model = [variants(file, count) for file in files]
    return [one[turn] for turn in range(count + 1) for one in by_model if turn < len(one)]


def scaled(source: str, factors: Factors) -> str:
    """The same file with its numbers of these kinds scaled: whole, and at least 1."""
    lines = source.encode().splitlines(keepends=True)
    numbers = [number for number in _numbers(ast.parse(source)) if number.kind in factors]
    for number in sorted(numbers, key=lambda one: (one.node.lineno, one.node.col_offset), reverse=True):
        node, value = number.node, max(1, round(number.value * factors[number.kind]))
        assert node.end_col_offset is not None and node.lineno == node.end_lineno
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + str(value).encode() + line[node.end_col_offset :]
    return b"".join(lines).decode()


def _numbers(tree: ast.Module) -> Iterator[_Number]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from _of_assignment(statement)
        elif isinstance(statement, ast.ClassDef) and statement.name == "Model":
            for inner in statement.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                    for default in (*inner.args.defaults, *inner.args.kw_defaults):
                        yield from _of_default(default)


def _of_assignment(statement: ast.Assign) -> Iterator[_Number]:
    (target, *more) = statement.targets
    pairs = [(target, statement.value)]
    if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
        pairs = list(zip(target.elts, statement.value.elts, strict=True))
    for name, value in [] if more else pairs:
        if isinstance(name, ast.Name) and name.id.isupper() and name.id not in SEEDS:
            kind = "batch" if name.id == BATCH else "sizes"
            yield from (_Number(kind, node, number) for node, number in _integers(value))


def _of_default(default: ast.expr | None) -> Iterator[_Number]:
    for node, value in _integers(default) if default is not None else ():
        yield _Number("counts" if value <= MOST_COUNTED else "widths", node, value)


def _integers(node: ast.expr) -> Iterator[tuple[ast.expr, int]]:
    """Of a literal, or of a list or tuple of literals."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield node, node.value
    elif isinstance(node, ast.List | ast.Tuple):
        for element in node.elts:
            yield from _integers(element)
