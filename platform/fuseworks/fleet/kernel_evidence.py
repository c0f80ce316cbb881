"""How far a kernel was found right under Triton's interpreter, and what GPUs measured of it, as workers tell it.

What cannot be understood is left out: a worker of another version may tell more, less, or it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """One configuration on one argument list. `error_share`: the worst element's error by what is allowed; None where
    `fault` says what is wrong."""

    configuration: str
    error_share: float | None
    fault: str

    @property
    def right(self) -> bool:
        return not self.fault


@dataclass(frozen=True)
class Cell:
    """All configurations of one sample in one dtype."""

    outcomes: list[Outcome]

    @property
    def right(self) -> int:
        return sum(one.right for one in self.outcomes)


@dataclass(frozen=True)
class MatrixRow:
    """One sample; `cells` by dtype, None where it was not run in that dtype."""

    sample: str
    edge: bool
    cells: list[Cell | None]


@dataclass(frozen=True)
class Matrix:
    """`current`: of the kernel as the worker has it. `rows`: ordinary arguments first."""

    date: str
    triton: str
    torch: str
    current: bool
    dtypes: list[str]
    rows: list[MatrixRow]

    @property
    def cases(self) -> int:
        return sum(len(cell.outcomes) for row in self.rows for cell in row.cells if cell is not None)

    @property
    def right(self) -> int:
        return sum(cell.right for row in self.rows for cell in row.cells if cell is not None)


@dataclass(frozen=True)
class Speed:
    """Times at the typical size, in microseconds; `roofline_share` where the device's rates are known."""

    dtype: str
    sample: str
    best: str
    best_us: float | None
    untuned_us: float | None
    reference_us: float | None
    bound_us: float | None
    bound_by: str
    roofline_share: float | None
    gigabytes_per_s: float | None
    teraflops_per_s: float | None


@dataclass(frozen=True)
class Measured:
    """On one device. `wrong` names the cases that were."""

    device: str
    target: str
    torch: str
    triton: str
    driver: str
    date: str
    cases: int | None
    right: int | None
    wrong: list[str]
    speeds: list[Speed]


def matrix_of(entry: Any) -> Matrix | None:
    """None where none is kept."""
    if not isinstance(entry, dict) or not isinstance(entry.get("rows"), list):
        return None
    found: dict[tuple[str, bool], dict[str, Cell]] = {}
    for row in entry["rows"]:
        if isinstance(row, dict) and isinstance(row.get("outcomes"), dict):
            place = _text(row.get("sample")), row.get("edge") is True
            found.setdefault(place, {})[_text(row.get("dtype"))] = _cell(row["outcomes"])
    dtypes = sorted({dtype for cells in found.values() for dtype in cells})
    rows = [MatrixRow(name, edge, [cells.get(d) for d in dtypes]) for (name, edge), cells in found.items()]
    return Matrix(
        date=_text(entry.get("date")),
        triton=_text(entry.get("triton")),
        torch=_text(entry.get("torch")),
        current=entry.get("current") is True,
        dtypes=dtypes,
        rows=sorted(rows, key=lambda row: row.edge),
    )


def _cell(outcomes: Mapping[str, Any]) -> Cell:
    return Cell([Outcome(name, _number(said), _text(said)) for name, said in outcomes.items()])


def measured_of(entries: Any) -> list[Measured]:
    found = []
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or not _text(entry.get("device")):
            continue
        wrong, speeds = entry.get("wrong"), entry.get("speeds")
        found.append(
            Measured(
                **{name: _text(entry.get(name)) for name in ("device", "target", "torch", "triton", "driver", "date")},
                cases=_whole(entry.get("cases")),
                right=_whole(entry.get("right")),
                wrong=[one for one in wrong if isinstance(one, str)] if isinstance(wrong, list) else [],
                speeds=[_speed(one) for one in speeds or [] if isinstance(one, dict)],
            )
        )
    return found


def _speed(entry: Mapping[str, Any]) -> Speed:
    texts = {name: _text(entry.get(name)) for name in ("dtype", "sample", "best", "bound_by")}
    figures = {name: _number(entry.get(name)) for name in FIGURES}
    return Speed(**texts, **figures)  # type: ignore[arg-type]


FIGURES = (
    "best_us", "untuned_us", "reference_us", "bound_us", "roofline_share", "gigabytes_per_s", "teraflops_per_s",
)  # fmt: skip


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
