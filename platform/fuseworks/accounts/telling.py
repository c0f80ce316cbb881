"""Tells an expected conflict on the page where it arose, in place of an error page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.forms import BaseForm
from django.http import HttpRequest

from fuseworks.core.errors import PlatformError
from fuseworks.core.telling import sentence_of

HERE = frozenset({400, 409, 422})


@contextmanager
def as_message(request: HttpRequest) -> Iterator[None]:
    """For forms of one button: the page that follows shows what was wrong. 403 and 404 stay error pages."""
    try:
        yield
    except PlatformError as error:
        if error.status not in HERE:
            raise
        messages.error(request, sentence_of(error))


@contextmanager
def at_field(form: BaseForm, field: str | None) -> Iterator[None]:
    """For forms with fields: the field names what was wrong and keeps what was typed."""
    try:
        yield
    except PlatformError as error:
        if error.status not in HERE:
            raise
        form.add_error(field, sentence_of(error))
