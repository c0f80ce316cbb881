"""A diagnosis as a person reads it on a terminal. Names out of a trace are a stranger's: control characters go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.diagnosing.exporting.figures import plain, told
from optimizer.diagnosing.traces.comparing import ComparedRow, TraceComparison
from optimizer.reporting import profile_text
from optimizer.result import Finding

MOST_FACTS, MOST_EVIDENCE, MOST_ROWS = 40, 8, 12
NAME_WIDTH = 100


def lines(answer: Diagnosis) -> list[str]:
    return [
        *_head(answer),
        *_facts(answer),
        *profile_text.lines(answer.profile),
        *_waits(answer),
        *_findings(answer.findings),
        *_compared(answer.comparison),
    ]


def _head(answer: Diagnosis) -> Iterator[str]:
    yield plain(answer.summary)
    for note in answer.notes:
        yield f"  - {plain(note)}"
    if "trusted" in answer.sandbox:
        yield "  - Read without the sandbox (--trusted)."


def _facts(answer: Diagnosis) -> Iterator[str]:
    found = [(name, told(name, value)) for name, value in answer.facts.items()]
    found = [(name, text) for name, text in found if text]
    if not found:
        return
    yield ""
    yield "Facts"
    width = max(len(name) for name, _ in found)
    for name, text in found[:MOST_FACTS]:
        yield f"  {name:<{width}}  {text}"


def _waits(answer: Diagnosis) -> Iterator[str]:
    if not answer.waits:
        return
    yield ""
    yield f"Ranks: {answer.waits[0].collectives:,} collectives in common"
    for row in answer.waits:
        who = f"rank {row.rank}" if row.rank is not None else plain(row.trace)
        late = f"came last {row.last_to_arrive} times, {row.late_ms:,.1f} ms late"
        yield f"  {who}: waited {row.waited_ms:,.1f} ms, {late}"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        return
    yield ""
    is_ranked = any(finding.counted_share is not None for finding in findings)
    yield "What holds it back" + (", by the time that mending gives back" if is_ranked else "")
    for number, finding in enumerate(findings, 1):
        yield ""
        yield f"{number}. [{finding.severity}] {plain(finding.title)}   ({finding.rule})"
        if finding.cost_share is not None:
            text = f"   costs {finding.cost_share:.1%} of the time"
            if finding.gain is not None:
                text += f"; mended: {finding.gain.low:.2f}x to {finding.gain.high:.2f}x ({plain(finding.gain.model)})"
            yield text
        if finding.threshold:
            yield f"   found because: {plain(finding.threshold)}"
        shown = [(name, told(name, value)) for name, value in list(finding.evidence.items())[:MOST_EVIDENCE]]
        yield from (f"   {name}: {text}" for name, text in shown if text)
        yield from (f"   -> {plain(step)}" for step in finding.steps or [finding.remedy] if step)


def _compared(comparison: TraceComparison | None) -> Iterator[str]:
    if comparison is None:
        return
    yield ""
    base, of = ", ".join(map(plain, comparison.base)), ", ".join(map(plain, comparison.of))
    yield f"Against {base}: {comparison.base_step_ms:,.2f} ms a step there, {comparison.step_ms:,.2f} ms here ({of})"
    yield from _table(comparison.rows)
    if comparison.by == "gpu":
        yield "  by kernel:"
        yield from _table(comparison.kernels)


def _table(rows: Sequence[ComparedRow]) -> Iterator[str]:
    for row in [row for row in rows if row.difference_ms][:MOST_ROWS]:
        share = "" if row.explains_share is None else f"{row.explains_share:+7.1%} of it"
        yield f"  {row.difference_ms:+10.3f} ms  {share:>16}  {row.status:<8}  {plain(row.name)[:NAME_WIDTH]}"
