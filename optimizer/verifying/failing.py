"""The questions that a candidate failed, and whether another one answers just those: a short look, never a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.result import Verification
from optimizer.sandbox import Child
from optimizer.verifying.asking import ask
from optimizer.verifying.judging import form_reason, judge_edge, judge_pooled
from optimizer.verifying.numerics import Rule
from optimizer.verifying.questions import Question, Truths

MOST_EDGES = 4


def failed_edges(verification: Verification, truths: Truths) -> list[Question]:
    """The edge sets that were answered wrongly, in the order in which they were asked."""
    names = {probe.name for probe in verification.probes if not probe.passed}
    return [question for question in truths.edges if question.name in names and question.not_judged is None]


def telling(verification: Verification, truths: Truths, captured: Truths | None = None) -> Question:
    """One question that shows the fault: a random one where those were failed, else a captured one, else an edge."""
    failed = {row.inputs for row in verification.outputs if not row.passed}
    if "drawn" not in failed:
        if "captured" in failed and captured is not None:
            return captured.pooled[0]
        return next(iter(failed_edges(verification, truths)), truths.pooled[0])
    return truths.pooled[0]


def answers_them(child: Child, verification: Verification, truths: Truths, rule: Rule, timeout_s: float) -> bool:
    """Whether `child` answers rightly what the candidate of this verification did not. Raises ChildFailed."""
    edges = failed_edges(verification, truths)[:MOST_EDGES]
    if edges and not _edges_right(child, edges, truths, rule, timeout_s):
        return False
    if edges and all(row.passed for row in verification.outputs):
        return True
    answers = ask(child, [question.arrays for question in truths.pooled], timeout_s=timeout_s).whole()
    if any(form_reason(a, q, truths.names) for a, q in zip(answers, truths.pooled, strict=True)):
        return False
    return all(row.passed for row in judge_pooled(answers, truths, rule))


def _edges_right(child: Child, edges: Sequence[Question], truths: Truths, rule: Rule, timeout_s: float) -> bool:
    given = ask(child, [question.arrays for question in edges], timeout_s=timeout_s, tolerant=True).sets
    return all(
        answer is not None and judge_edge(answer, question, truths, rule) is None
        for answer, question in zip(given, edges, strict=True)
    )
