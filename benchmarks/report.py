"""The benchmark's report from the answers of its runs: a table, and whether repeated runs agree. Pure; runs nothing.

Each document is a run's JSON answer with two keys more: `model`, the file's name, and `wall_s`, seconds from start to
end of the command. A run that came to no verdict stands with its status, and agrees with no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

Document = dict[str, Any]

COLUMNS = (
    "model",
    "baseline ms",
    "best ms",
    "speedup",
    "as deployed",
    "verdict",
    "best peer",
    "peer speedup",
    "over peer",
    "winner",
    "max error",
    "wall s",
)
# What is long and says nothing of speed.
LEFT_OUT = frozenset({"profile", "rewrites", "workload", "artifacts", "recipe"})


class Agreement(NamedTuple):
    """What all runs of one model came to. `agree` is None after one run: there is nothing to compare."""

    model: str
    outcomes: list[str]
    agree: bool | None
    wall_s: list[float]

    def in_words(self) -> str:
        return f"{self.model}: {len(self.outcomes)} runs came to {', '.join(self.outcomes)}"


def agreements(documents: Iterable[Document]) -> list[Agreement]:
    """One for each model, in the order in which they first appear."""
    runs: dict[str, list[Document]] = {}
    for document in documents:
        runs.setdefault(document["model"], []).append(document)
    return [_agreement(model, of_model) for model, of_model in runs.items()]


def _agreement(model: str, runs: Sequence[Document]) -> Agreement:
    verdicts = [run.get("verdict") for run in runs]
    agree = None if len(runs) == 1 else None not in verdicts and len(set(verdicts)) == 1
    return Agreement(model, [outcome(run) for run in runs], agree, [run["wall_s"] for run in runs])


def outcome(document: Document) -> str:
    """The run's verdict, or the status with which it ended without one."""
    return str(document.get("verdict") or document.get("status"))


def markdown(documents: Sequence[Document]) -> str:
    """The whole report."""
    told = {None: "one run only", True: "yes", False: "NO"}
    compared = [
        [a.model, str(len(a.outcomes)), ", ".join(a.outcomes), told[a.agree], ", ".join(f"{s:.0f}" for s in a.wall_s)]
        for a in agreements(documents)
    ]
    return "\n".join(
        [
            *table(COLUMNS, map(row, documents)),
            "",
            "## Verdicts agree",
            "",
            *table(("model", "runs", "verdicts", "agree", "wall s"), compared),
            "",
        ]
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [line(columns), line(["---"] * len(columns)), *map(line, rows)]


def row(document: Document) -> list[str]:
    """The cells of one run, as COLUMNS names them; empty where the run does not say."""
    peer = document.get("best_peer") or {}
    errors = [output["error"] for output in document.get("numerics") or []]
    return [
        document["model"],
        _number(document.get("baseline_ms")),
        _number(document.get("best_ms")),
        _interval(document.get("speedup"), document.get("speedup_ci")),
        _number(document.get("speedup_as_deployed")),
        outcome(document),
        str(peer.get("name", "")),
        _interval(peer.get("speedup"), peer.get("interval")),
        _number(document.get("speedup_over_best_peer")),
        str(document.get("winner") or ""),
        f"{max(errors):.1e}" if errors else "",
        f"{document['wall_s']:.0f}",
    ]


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def kept(document: Document) -> Document:
    """What the report's JSON keeps of a run."""
    return {name: value for name, value in document.items() if name not in LEFT_OUT}


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, (int, float)) else ""


def _interval(value: Any, interval: Any) -> str:
    if value is None or not interval:
        return ""
    return f"{value:.2f} [{interval['low']:.2f}, {interval['high']:.2f}]"
