"""Errors that the platform tells its users: one catalogue of ids, texts, remedies and HTTP statuses.

Ids read `<app>:<side>:<what>` as the optimizer's do, whose catalogue class is used here too. An app's errors live in
its own `errors.py`; raise `PlatformError(id, place=..., **context)` in services. `core/problems.py` makes the answer
(RFC 9457, `application/problem+json`) of it, and `PlatformErrorMiddleware` makes the page.
"""

from __future__ import annotations

from typing import Any

from django.utils import translation
from django.utils.functional import Promise

from optimizer.errors import CATALOGUE, FuseworksError
from optimizer.errors import catalogue as _catalogue

STATUS: dict[str, int] = {}


def catalogue(entries: dict[str, tuple[int, str, str]]) -> None:
    """Adds an app's errors: `{id: (HTTP status, message, remedy)}`. Called at module level by an app's `errors.py`."""
    _catalogue({id_: (message, remedy) for id_, (_, message, remedy) in entries.items()})
    STATUS.update({id_: status for id_, (status, _, _) in entries.items()})


def english(text: str | Promise) -> str:
    """What the API says of a lazy translation."""
    with translation.override("en"):
        return str(text)


class PlatformError(FuseworksError):
    """An expected failure of a request. `extra` travels in the answer beside id, message and remedy.

    Message and remedy are English. A sentence of ours that fills them is given as a lazy translation: pages tell it in
    the reader's language (`core/telling.py`).
    """

    def __init__(
        self, id: str, *, place: str | None = None, extra: dict[str, Any] | None = None, **context: Any
    ) -> None:
        with translation.override("en"):
            super().__init__(id, place=place, **context)
        self.extra = extra or {}

    @property
    def status(self) -> int:
        return STATUS[self.id]


def known(id_: str) -> bool:
    return id_ in CATALOGUE


catalogue(
    {
        "core:usage:not-found": (
            404,
            "There is no such {what} here, or you may not see it.",
            "Check the address, and that you are signed in with a team that owns it.",
        ),
        "core:usage:forbidden": (
            403,
            "Your role in {team} is {role}; this needs {needed}.",
            "Ask an owner of the team to change your role.",
        ),
        "core:usage:token-scope": (
            403,
            "This API token has no scope {scope}.",
            "Make a token with that scope on your tokens page.",
        ),
        "core:usage:invalid": (
            400,
            "The request cannot be understood: {text}",
            "Mend the named fields and send it again.",
        ),
        "core:usage:unstorable": (
            400,
            "A value in the request is too long or too large, or holds a character that cannot be stored.",
            "Shorten it, or take out characters that no text has (NUL), and send it again.",
        ),
        "core:usage:unauthenticated": (
            401,
            "You are not signed in.",
            "Sign in, or send the header Authorization: Bearer TOKEN with a token of your tokens page.",
        ),
        "core:usage:body-too-large": (
            413,
            "The body has more than the {limit_bytes} bytes that are taken here.",
            "Send less; a model's file goes to the uploads' address.",
        ),
        "core:usage:form-expired": (
            403,
            "This form is out of date, so nothing was done.",
            "Go back, load the page again and send it once more; your browser must take cookies of this site.",
        ),
        "core:usage:refused": (
            403,
            "This is refused: {text}",
            "With a token: see on your tokens page what it may do, and in which team. Signed in: load the page again; "
            "if your role does not allow it, ask an owner of the team.",
        ),
        "core:usage:method": (
            405,
            "This address does not take that method: {text}",
            "See docs/api/ for what each address takes.",
        ),
        "core:usage:media-type": (
            415,
            "A body of this kind is not taken here: {text}",
            "Send JSON with Content-Type: application/json; a model's file goes to the uploads' address.",
        ),
        "core:ours:unexpected": (
            500,
            "Something failed in a way Fuseworks did not foresee (reference {reference}).",
            "This is a fault of Fuseworks: please report it with the reference.",
        ),
    }
)
