"""A diagnosis as a Markdown report: facts with units, findings ranked with evidence and remedies, and the conditions.

What a trace or a model is called by is a stranger's: it is escaped, never markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.diagnosing.exporting import markdown_profile, rules
from optimizer.diagnosing.exporting.figures import flat, told
from optimizer.diagnosing.exporting.markdown_text import code, table, text
from optimizer.diagnosing.traces.comparing import ComparedRow, TraceComparison
from optimizer.result import Finding

MOST_ROWS, MOST_ENTRIES = 20, 12


def write(answer: Diagnosis) -> str:
    parts = [_head(answer), _facts(answer), _findings(answer.findings), _waits(answer), _compared(answer.comparison)]
    parts += [markdown_profile.lines(answer.profile), _notes(answer), _conditions(answer)]
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(answer: Diagnosis) -> Iterator[str]:
    yield f"# Diagnosis of {', '.join(map(code, answer.of))}"
    if answer.summary:
        yield f"\n{text(answer.summary)}"
    if answer.problem is not None:
        at = f" at {code(answer.problem.place)}" if answer.problem.place else ""
        yield f"\n**Not diagnosed**{at}: {text(answer.problem.message)}"
        yield f"\n{text(answer.problem.remedy)}"


def _facts(answer: Diagnosis) -> Iterator[str]:
    rows = [(code(name), text(told(name, value, MOST_ENTRIES))) for name, value in answer.facts.items()]
    rows = [row for row in rows if row[1]]
    if rows:
        yield "\n## Facts\n"
        yield from table(("fact", "value"), rows)


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        return
    ranked = any(finding.counted_share is not None for finding in findings)
    yield "\n## What holds it back"
    yield "\nBy the time that mending gives back; time that two causes share is counted once." if ranked else ""
    for number, finding in enumerate(findings, 1):
        yield f"\n### {number}. {text(finding.title)}\n"
        yield f"**{finding.severity}**, rule {code(finding.rule)}: {text(rules.sentence(finding.rule))}"
        yield from _cost(finding)
        yield from _evidence(finding)
        steps = [step for step in finding.steps or [finding.remedy] if step]
        if steps:
            yield "\nRemedy:\n"
            yield from (f"{at}. {text(step)}" for at, step in enumerate(steps, 1))


def _cost(finding: Finding) -> Iterator[str]:
    if finding.cost_share is not None:
        ms = f" ({told('cost_ms', finding.cost_ms)})" if finding.cost_ms is not None else ""
        counted = finding.counted_share
        beyond = f"; mending gives back {counted:.1%} beyond the findings above" if counted is not None else ""
        yield f"\nIt costs {finding.cost_share:.1%} of the time{ms}{beyond}."
    if finding.gain is not None:
        low, high = finding.gain.low, finding.gain.high
        yield f"\nPredicted when mended: {low:.2f}x to {high:.2f}x as fast. Model: {text(finding.gain.model)}."
    if finding.threshold:
        yield f"\nFound from where on: {text(finding.threshold)}."


def _evidence(finding: Finding) -> Iterator[str]:
    shown = [(name, told(name, value, MOST_ENTRIES)) for name, value in finding.evidence.items()]
    shown = [row for row in shown if row[1]]
    if shown:
        yield "\nEvidence:\n"
        yield from (f"- {code(name)}: {text(value)}" for name, value in shown)


def _waits(answer: Diagnosis) -> Iterator[str]:
    if not answer.waits:
        return
    yield "\n## Ranks\n"
    yield f"{answer.waits[0].collectives:,} collectives in common.\n"
    rows = [
        (
            text(row.trace if row.rank is None else f"rank {row.rank}"),
            told("waited_ms", row.waited_ms),
            f"{row.last_to_arrive:,}",
            told("late_ms", row.late_ms),
        )
        for row in answer.waits
    ]
    yield from table(("rank", "waited", "came last", "others waited for it"), rows, (1, 2, 3))


def _compared(comparison: TraceComparison | None) -> Iterator[str]:
    if comparison is None:
        return
    yield f"\n## Against {', '.join(map(code, comparison.base))}\n"
    yield f"{comparison.base_step_ms:,.2f} ms a step there, {comparison.step_ms:,.2f} ms here.\n"
    rows = [_row(row) for row in comparison.rows if row.difference_ms][:MOST_ROWS]
    yield from table(("operation", "", "there", "here", "difference", "explains"), rows, (2, 3, 4, 5))


def _row(row: ComparedRow) -> tuple[str, ...]:
    share = "" if row.explains_share is None else f"{row.explains_share:+.1%}"
    times = [f"{row.base_ms:,.3f} ms", f"{row.ms:,.3f} ms", f"{row.difference_ms:+,.3f} ms"]
    return code(row.name), row.status, *times, share


def _notes(answer: Diagnosis) -> Iterator[str]:
    if answer.notes:
        yield "\n## Notes\n"
        yield from (f"- {text(note)}" for note in answer.notes)


def _conditions(answer: Diagnosis) -> Iterator[str]:
    rows = [("sandbox", answer.sandbox)] if answer.sandbox else []
    if answer.conditions is not None:
        rows.append(("fingerprint", answer.conditions.fingerprint))
        rows += flat(answer.conditions.fixed) + flat(answer.conditions.observed)
    if rows:
        yield "\n## Conditions\n"
        yield from table(("what", "value"), [(code(name), text(value)) for name, value in rows if value])
