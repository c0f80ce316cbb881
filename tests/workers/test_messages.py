"""The message between dispatcher and worker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from workers.messages import TARGET, RunMessage, queue_of

RUN = "6f1c1b5e-7c1d-4c0b-9a7e-2f1f3a2b4c5d"
TOKEN = "t" * 32
GOOD: dict[str, Any] = {"run_id": RUN, "attempt": 1, "api": "https://fuseworks.example/api/", "token": TOKEN}


def test_a_message_survives_the_wire() -> None:
    message = RunMessage.model_validate(GOOD)
    assert message.run_id == UUID(RUN)
    assert RunMessage.model_validate(message.wire()) == message
    assert message.wire() == GOOD


def test_the_token_is_in_no_text_form_of_the_message() -> None:
    message = RunMessage.model_validate(GOOD)
    assert TOKEN not in repr(message)
    assert TOKEN not in str(message)
    assert TOKEN not in message.model_dump_json()


def test_a_field_of_a_later_version_is_ignored_so_that_a_rolling_deployment_survives() -> None:
    message = RunMessage.model_validate({**GOOD, "priority": 7})
    assert "priority" not in message.wire()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run_id", "42"),
        ("attempt", 0),
        ("attempt", None),
        ("api", "ftp://fuseworks.example/"),
        ("api", "https://user:word@fuseworks.example/"),
        ("api", "https://fuseworks.example/?token=1"),
        ("token", "short"),
    ],
)
def test_a_message_that_makes_no_sense_is_refused_with_the_fields_name(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        RunMessage.model_validate({**GOOD, field: value})
    assert [error["loc"] for error in caught.value.errors()] == [(field,)]


def test_a_message_cannot_be_changed() -> None:
    message = RunMessage.model_validate(GOOD)
    with pytest.raises(ValidationError):
        message.attempt = 2


@pytest.mark.parametrize(
    ("target", "is_one"),
    [("cpu", True), ("cuda:sm_90a", True), ("rocm:gfx942", True), ("cuda:sm_1", False), ("cpu2", False), ("", False)],
)
def test_what_a_target_is_both_sides_of_the_broker_say_alike(target: str, is_one: bool):
    assert (TARGET.fullmatch(target) is not None) == is_one
    assert queue_of(target) == f"fuseworks.{target}"
