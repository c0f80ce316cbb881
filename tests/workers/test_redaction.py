"""Tokens stay out of Celery's log in every form in which it prints a message's body."""

from __future__ import annotations

import logging

import pytest

from workers.redaction import Redaction

TOKEN = "s3cr3t-of-this-attempt"


def shown(message: str, *arguments: object) -> str:
    record = logging.LogRecord("celery", logging.ERROR, "f", 1, message, arguments, None)
    assert Redaction().filter(record)
    return record.getMessage()


@pytest.mark.parametrize(
    "body",
    [
        f'[[], {{"attempt": 1, "token": "{TOKEN}", "z": 2}}, {{}}]',
        f"{{'token': '{TOKEN}'}}",
        f'b\'{{\\"token\\": \\"{TOKEN}\\"}}\'',
        f'{{"token":"{TOKEN}"}}',
    ],
)
def test_a_bodys_token_is_not_shown_and_the_rest_is(body: str) -> None:
    text = shown("The full contents of the message body was: %s (%d bytes)", body, 7)
    assert TOKEN not in text
    assert "(not shown)" in text and text.startswith("The full contents") and text.endswith("(7 bytes)")


def test_other_lines_are_left_as_they_are() -> None:
    assert shown("Task %s received: 100%%", "x") == "Task x received: 100%"
