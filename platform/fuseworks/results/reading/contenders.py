"""Baseline, best peer and winner side by side: who took part in the judgement, and each one's figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fuseworks.core import figures
from optimizer.result import Evaluation, OutputNumerics, Performance, Result, Verdict

# the names under which the coordinator files the baseline
BASELINE, DEPLOYED = "baseline", "baseline (default settings)"


@dataclass(frozen=True)
class Contender:
    """`role`: baseline, baseline_default, best_peer or winner. `label` says it to a reader."""

    role: str
    label: str
    evaluation: Evaluation

    @property
    def name(self) -> str:
        return self.evaluation.candidate.name

    @property
    def performance(self) -> Performance | None:
        return self.evaluation.performance


@dataclass(frozen=True)
class Row:
    """One figure over all contenders, already in words; `note` says what it is."""

    label: Any
    note: Any
    cells: list[str]


@dataclass(frozen=True)
class OutputRow:
    """The errors of one output against float64: the baseline's, the best peer's and the winner's, and the bound."""

    output: str
    dtype: str
    baseline: float
    peer: float | None
    winner: OutputNumerics


def contenders(result: Result) -> list[Contender]:
    """Those that were measured together, in the order of the page. Empty when nothing was judged."""
    by_name = {evaluation.candidate.name: evaluation for evaluation in result.candidates}
    peer = result.best_peer.name if result.best_peer else None
    roles = [("baseline", BASELINE, _("Baseline")), ("baseline_default", DEPLOYED, _("Baseline, default settings"))]
    if peer is not None and peer != result.winner:
        roles.append(("best_peer", peer, _("Best peer")))
    if result.winner is not None:
        roles.append(("winner", result.winner, winner_label(result)))
    return [Contender(role, label, by_name[name]) for role, name, label in roles if name in by_name]


def winner_label(result: Result) -> str:
    """What is not faster is not offered, and is not called a winner."""
    if result.verdict != Verdict.FASTER:
        return _("Best candidate, not offered")
    is_peer = result.best_peer is not None and result.best_peer.name == result.winner
    return _("Winner: the best peer") if is_peer else _("Winner")


_FIGURES: list[tuple[Any, Any, Callable[[Performance], str]]] = [
    (gettext_lazy("Median"), gettext_lazy("of single calls"), lambda p: figures.milliseconds(p.median_ms)),
    (gettext_lazy("90th percentile"), "", lambda p: figures.milliseconds(p.p90_ms)),
    (gettext_lazy("99th percentile"), "", lambda p: figures.milliseconds(p.p99_ms)),
    (
        gettext_lazy("Throughput"),
        gettext_lazy("samples a second, one caller"),
        lambda p: f"{p.throughput_per_s:,.0f} /s",
    ),
    (
        gettext_lazy("Peak memory"),
        gettext_lazy("above the state after import"),
        lambda p: figures.size(p.peak_memory_bytes),
    ),
    (gettext_lazy("Page faults"), gettext_lazy("a call"), lambda p: _count(p.page_faults_per_call)),
    (gettext_lazy("Compile time"), "", lambda p: figures.duration(p.compile_s)),
    (gettext_lazy("Load time"), gettext_lazy("in a fresh process"), lambda p: _load(p.load_s)),
    (gettext_lazy("Artifact"), gettext_lazy("size of what is deployed"), lambda p: figures.size(p.artifact_bytes)),
    (gettext_lazy("Precision"), "", lambda p: p.inference_precision or figures.MISSING),
    (
        gettext_lazy("Measured"),
        gettext_lazy("calls in fresh processes"),
        lambda p: _("%(calls)s calls, %(processes)s processes") % {"calls": f"{p.calls:,}", "processes": p.processes},
    ),
]


def rows(shown: Sequence[Contender]) -> list[Row]:
    """The figures of the contenders, one row each; `–` where one has none (a baseline compiles nothing)."""
    return [
        Row(label, note, [figures.MISSING if c.performance is None else text(c.performance) for c in shown])
        for label, note, text in _FIGURES
    ]


def numerics(result: Result) -> list[OutputRow]:
    """Per output, with the bound that the winner had to keep."""
    peers = {}
    if result.best_peer is not None and result.best_peer.name != result.winner:
        evaluation = next((e for e in result.candidates if e.candidate.name == result.best_peer.name), None)
        if evaluation is not None and evaluation.verification is not None:
            peers = {(row.output, row.inputs): row.error for row in evaluation.verification.outputs}
    return [
        OutputRow(row.output, row.dtype, row.baseline_error, peers.get((row.output, row.inputs)), row)
        for row in result.numerics
    ]


def _count(value: float | None) -> str:
    if value is None:
        return figures.MISSING
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def _load(value: float | None) -> str:
    """Most load in milliseconds, which seconds would round away."""
    if value is None:
        return figures.MISSING
    return figures.milliseconds(value * 1e3) if value < 1 else figures.duration(value)
