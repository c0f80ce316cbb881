"""Colours and words of every status, verdict, stage and purpose, the same on all pages.

A word that is not known here is shown as it stands, in grey: a new status must not break a page.
"""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

GOOD, BAD, BUSY, WARNING, NEUTRAL = "green", "red", "blue", "yellow", "secondary"

STATUSES: dict[str, tuple[str, Any]] = {
    # runs
    "queued": (NEUTRAL, _("queued")),
    "running": (BUSY, _("running")),
    "succeeded": (GOOD, _("succeeded")),
    "failed": (BAD, _("failed")),
    "errored": (BAD, _("errored")),
    "cancelled": (NEUTRAL, _("cancelled")),
    "timed_out": (WARNING, _("timed out")),
    # candidates
    "passed": (GOOD, _("passed")),
    "incorrect_numerics": (BAD, _("incorrect numerics")),
    "refused": (NEUTRAL, _("refused")),
    "unsupported_by_backend": (NEUTRAL, _("unsupported by backend")),
    "compile_error": (BAD, _("compile error")),
    "runtime_error": (BAD, _("runtime error")),
    "out_of_memory": (BAD, _("out of memory")),
    "crashed": (BAD, _("crashed")),
    "not_tried": (NEUTRAL, _("not tried")),
    # attempts
    "sent": (BUSY, _("sent")),
    "claimed": (BUSY, _("claimed")),
    "ended": (NEUTRAL, _("ended")),
    "expired": (WARNING, _("expired")),
    "unclaimed": (WARNING, _("unclaimed")),
    "gave_up": (WARNING, _("gave up")),
    # recipes
    "draft": (NEUTRAL, _("draft")),
    "published": (GOOD, _("published")),
    "deprecated": (WARNING, _("deprecated")),
    # workers
    "idle": (GOOD, _("idle")),
    "busy": (BUSY, _("busy")),
    "silent": (BAD, _("silent")),
    "stopped": (NEUTRAL, _("stopped")),
}
VERDICTS: dict[str, tuple[str, Any]] = {
    "faster": (GOOD, _("faster")),
    "slower": (BAD, _("slower")),
    "same": (NEUTRAL, _("same")),
    "cannot_tell": (WARNING, _("cannot tell")),
    "": (NEUTRAL, _("not judged")),
    # gates
    "pending": (NEUTRAL, _("pending")),
    "pass": (GOOD, _("pass")),
    "fail": (BAD, _("fail")),
    "no_result": (NEUTRAL, _("no result")),
    # evidence
    "refused": (NEUTRAL, _("refused")),
    "not_accepted": (WARNING, _("not accepted")),
    "failed": (BAD, _("failed")),
}
STAGES: dict[str, Any] = {
    "capturing": _("capturing"),
    "profiling": _("profiling"),
    "diagnosing": _("diagnosing"),
    "optimizing": _("optimizing"),
    "compiling": _("compiling"),
    "verifying": _("verifying"),
    "benchmarking": _("benchmarking"),
}
PURPOSES: dict[str, Any] = {
    "inspect": _("inspect"),
    "optimize": _("optimize"),
    "replay": _("replay"),
    "compare": _("compare"),
    "explain": _("explain"),
    "diagnose": _("diagnose"),
}

COMPARED_AS: dict[str, Any] = {"packaged": _("as packaged"), "uploaded": _("as uploaded")}


def status(word: Any) -> Any:
    """A status as a word alone, where a badge would be too much."""
    return STATUSES[str(word)][1] if str(word) in STATUSES else word


def verdict(word: Any) -> Any:
    """A verdict as a word alone."""
    return VERDICTS[str(word)][1] if str(word) in VERDICTS else word


def stage(word: Any) -> Any:
    """A stage of a run in the reader's language; what is not known stands as it is."""
    return STAGES.get(str(word), word)


def purpose(word: Any) -> Any:
    """A run's purpose in the reader's language."""
    return PURPOSES.get(str(word), word)


def compared_as(word: Any) -> Any:
    """What a comparison measured, in the reader's language."""
    return COMPARED_AS.get(str(word), word)


def status_badge(status: Any) -> SafeString:
    return _badge(STATUSES, status)


def verdict_badge(verdict: Any) -> SafeString:
    """Of a comparison, a gate's check or a piece of evidence; empty or None reads "not judged"."""
    return _badge(VERDICTS, verdict)


def _badge(table: dict[str, tuple[str, Any]], word: Any) -> SafeString:
    key = "" if word is None else str(word)
    colour, label = table.get(key, (NEUTRAL, key.replace("_", " ")))
    return format_html('<span class="badge bg-{}-lt" data-word="{}">{}</span>', colour, key, label)
