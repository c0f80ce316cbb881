"""Errors told to people in their language: pages use this, the API and the command line stay English.

A translation is found by the error's id (`scripts/error_texts.py` puts each entry of each catalogue there) and filled
with the context that is stored with the error. By id and not by the English text: the web process holds no catalogue of
the optimizer's errors, and a run of last year still speaks today's Chinese. Where id or context are not known, the
English text stands as it was stored. What fills a text (an exception's words, a reason) is told as it stands, except
for the few words of our own in `WORDS`, and for what is given as a lazy translation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import translation
from django.utils.translation import gettext_noop

from optimizer.errors import FuseworksError
from optimizer.result import Problem

WORDS = frozenset(
    {
        # what `core:usage:not-found` may miss
        gettext_noop("thing"),
        gettext_noop("page"),
        gettext_noop("address"),
        gettext_noop("file"),
        gettext_noop("business unit"),
        gettext_noop("team"),
        gettext_noop("member"),
        gettext_noop("invitation"),
        gettext_noop("token"),
        gettext_noop("model"),
        gettext_noop("version"),
        gettext_noop("model version"),
        gettext_noop("upload"),
        gettext_noop("revision"),
        gettext_noop("run"),
        gettext_noop("trace"),
        gettext_noop("finding"),
        gettext_noop("format"),
        gettext_noop("recipe"),
        gettext_noop("recipe version"),
        # roles
        gettext_noop("viewer"),
        gettext_noop("maintainer"),
        gettext_noop("owner"),
        # states of runs and recipes
        gettext_noop("queued"),
        gettext_noop("running"),
        gettext_noop("succeeded"),
        gettext_noop("failed"),
        gettext_noop("errored"),
        gettext_noop("cancelled"),
        gettext_noop("timed out"),
        gettext_noop("draft"),
        gettext_noop("published"),
        gettext_noop("deprecated"),
    }
)
# Only these hold words of our own; a team or a model may well be called "run".
WORDED = frozenset({"what", "role", "own", "needed", "status", "state"})

Told = FuseworksError | Problem | Mapping[str, Any]


def message_of(error: Told) -> str:
    """What went wrong: of an error, of a result's problem, or of one as a run stores it."""
    return _told(error, "message")


def remedy_of(error: Told) -> str:
    """What to do about it."""
    return _told(error, "remedy")


def sentence_of(error: Told) -> str:
    """Both in one line, for forms and messages."""
    return f"{message_of(error)} {remedy_of(error)}".strip()


def _told(error: Told, part: str) -> str:
    given = error if isinstance(error, Mapping) else {name: getattr(error, name) for name in ("id", "context", part)}
    id_, context, english = str(given.get("id") or ""), given.get("context") or {}, str(given.get(part) or "")
    if isinstance(context.get("cause"), FuseworksError):  # an error that only hands on the texts of another
        return _told(context["cause"], part)
    translated = translation.pgettext(f"error {part}", id_)
    if translated == id_:
        return english
    try:
        return translated.format_map({name: _word(name, value) for name, value in context.items()})
    except (LookupError, ValueError, TypeError, AttributeError):  # of another version, whose entry had other fields
        return english


def _word(name: str, value: Any) -> Any:
    return translation.gettext(str(value)) if name in WORDED and str(value) in WORDS else value
