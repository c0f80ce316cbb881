"""JSON under limits, and the two little languages inside a saved program that torch evaluates: shape expressions
(`sympy.sympify`) and guards (`exec`). Both are parsed here against a grammar, and never evaluated."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 200
MAX_EXPRESSION = 20_000
MAX_NESTING = 80
MAX_DIGITS = 25
SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
PLAIN_SYMBOL = re.compile(r"[suz]f?\d{1,9}", re.ASCII)

# What sympy's srepr writes for sizes, and torch.utils._sympy.functions adds to it.
FUNCTIONS = frozenset(
    [
        "Symbol",
        "Integer",
        "Rational",
        "Float",
        "Add",
        "Mul",
        "Pow",
        "Max",
        "Min",
        "Mod",
        "Abs",
        "And",
        "Or",
        "Not",
        "Eq",
        "Ne",
        "Lt",
        "Le",
        "Gt",
        "Ge",
        "Equality",
        "Unequality",
        "GreaterThan",
        "LessThan",
        "StrictGreaterThan",
        "StrictLessThan",
        "FloorDiv",
        "ModularIndexing",
        "PythonMod",
        "CleanDiv",
        "CeilDiv",
        "CeilToInt",
        "FloorToInt",
        "TruncToInt",
        "TruncToFloat",
        "RoundToInt",
        "RoundDecimal",
        "ToFloat",
        "IntTrueDiv",
        "FloatTrueDiv",
        "LShift",
        "RShift",
        "PowByNatural",
        "FloatPow",
        "Where",
        "Identity",
        "floor",
        "ceiling",
        "Piecewise",
        "ExprCondPair",
        "Tuple",
    ]
)
ASSUMPTIONS = frozenset(
    ["integer", "positive", "negative", "nonnegative", "nonpositive", "nonzero", "real", "finite", "zero", "precision"]
)
GUARD_METHODS = frozenset({"size", "stride", "storage_offset", "dim"})
GUARD_FUNCTIONS = frozenset({"max", "min", "float", "int", "bool", "len"})
MATH_FUNCTIONS = frozenset({"floor", "ceil", "trunc", "sqrt", "isnan"})
OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class NotAllowed(Exception):
    """Says what is outside of the grammar or the limits."""


def load(data: bytes) -> Any:
    """Raises NotAllowed."""
    if _depth(data) > MAX_DEPTH:
        raise NotAllowed("its JSON is nested too deeply")
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_without_doubles, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise NotAllowed(f"its JSON cannot be read: {str(error)[:120]}") from error


def _depth(data: bytes) -> int:
    """Brackets outside of strings, before the recursive parser sees them."""
    depth = deepest = 0
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', data, re.DOTALL):
        first = token.group()[:1]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"]}":
            depth -= 1
    return deepest


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice")
    return found


def _constant(name: str) -> float:
    # torch writes infinite bounds of dims and float arguments this way
    return float(name.replace("Infinity", "inf"))


def objects(document: Any) -> Iterator[dict[str, Any]]:
    """Every object in it, without recursion."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def check_expression(text: Any) -> None:
    """A size over symbols, as `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))` or a bare `s0`."""
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Call):
            if not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
                raise NotAllowed(f"the expression {text[:80]!r} calls something else than arithmetic")
            if not all(keyword.arg in ASSUMPTIONS for keyword in node.keywords):
                raise NotAllowed(f"the expression {text[:80]!r} has unknown assumptions")
        elif isinstance(node, ast.Name):
            if not (node.id in FUNCTIONS or node.id in ("true", "false") or PLAIN_SYMBOL.fullmatch(node.id)):
                raise NotAllowed(f"the expression {text[:80]!r} names {node.id[:40]!r}")
        elif isinstance(node, ast.Constant):
            _check_constant(node, text)
        elif not isinstance(node, (*_SHARED, ast.keyword)):
            raise NotAllowed(f"the expression {text[:80]!r} is no arithmetic")


def check_guard(text: Any) -> None:
    """A condition on input sizes, as `L['x'].size()[0] == L['y'].size()[0]`."""
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Call):
            _check_guard_call(node, text)
        elif isinstance(node, ast.Name):
            if node.id not in GUARD_FUNCTIONS | {"L", "math"}:
                raise NotAllowed(f"the guard {text[:80]!r} names {node.id[:40]!r}")
        elif isinstance(node, ast.Attribute):
            if node.attr not in GUARD_METHODS | MATH_FUNCTIONS | {"inf"}:
                raise NotAllowed(f"the guard {text[:80]!r} reads the attribute {node.attr[:40]!r}")
        elif isinstance(node, ast.Constant):
            _check_constant(node, text)
        elif not isinstance(node, (*_SHARED, ast.Subscript)):
            raise NotAllowed(f"the guard {text[:80]!r} is no condition on sizes")


_SHARED = (
    ast.Expression, ast.Load, ast.UnaryOp, ast.USub, ast.Not, ast.BinOp, *OPERATIONS,
    ast.BoolOp, ast.And, ast.Or, ast.Compare, *COMPARISONS,
)  # fmt: skip


def _check_guard_call(node: ast.Call, text: str) -> None:
    function = node.func
    plain = isinstance(function, ast.Name) and function.id in GUARD_FUNCTIONS
    method = isinstance(function, ast.Attribute) and function.attr in GUARD_METHODS and not node.args
    of_math = (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "math"
        and function.attr in MATH_FUNCTIONS
    )
    if node.keywords or not (plain or method or of_math):
        raise NotAllowed(f"the guard {text[:80]!r} calls something else than a size")


def _parsed(text: Any) -> ast.Expression:
    if not isinstance(text, str) or len(text) > MAX_EXPRESSION:
        raise NotAllowed("an expression is no text, or too long")
    if _nesting(text) > MAX_NESTING or "\n" in text or not text.isascii():
        raise NotAllowed(f"the expression {text[:80]!r} is nested too deeply or no plain text")
    try:
        return ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotAllowed(f"the expression {text[:80]!r} cannot be parsed") from error


def _nesting(text: str) -> int:
    """An upper bound of the parser's depth: open brackets, and runs of signs."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        deepest = max(deepest, depth)
    signs = max((len(run) for run in re.findall(r"(?:[-+~]|\bnot\b|\s|\*\*)+", text)), default=0)
    return deepest + signs


def _check_constant(node: ast.Constant, text: str) -> None:
    value = node.value
    if isinstance(value, str):
        if not SYMBOL.fullmatch(value) and not re.fullmatch(r"-?\d{1,30}(\.\d{1,30})?(e[-+]?\d{1,3})?", value):
            raise NotAllowed(f"the expression {text[:80]!r} holds the text {value[:40]!r}")
    elif isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise NotAllowed("an expression holds an enormous number")
    elif not isinstance(value, (bool, int, float, type(None))):
        raise NotAllowed(f"the expression {text[:80]!r} holds an unusual constant")
