"""A JSON body is bounded, whether it declares its length or not."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from fuseworks.core.errors import PlatformError
from fuseworks.core.parsers import BoundedJSONParser
from tests.platform import factories


@pytest.mark.django_db
def test_a_body_that_declares_too_much_is_a_413():
    api = factories.api_for(factories.make_member(factories.make_team("ads-ranking")))
    body = b'{"name": "' + b"x" * (2 << 20) + b'"}'
    answer = api.generic("POST", "/api/v1/models/", data=body, content_type="application/json")
    assert answer.status_code == 413
    assert answer.json()["id"] == "core:usage:body-too-large"


class Endless(io.RawIOBase):
    """A body without end, as a chunked request may send it; counts what was read."""

    taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "it would be read to its end"
        self.taken += size
        return b" " * size


def parse(stream, limit_bytes: int):
    return BoundedJSONParser().parse(stream, None, {"view": SimpleNamespace(max_body_bytes=limit_bytes)})


def test_a_body_without_end_is_read_no_further_than_the_limit():
    stream = Endless()
    with pytest.raises(PlatformError) as caught:
        parse(stream, 1000)
    assert caught.value.status == 413
    assert stream.taken == 1001


def test_a_body_of_just_the_limit_is_taken():
    assert parse(io.BytesIO(b'"01234567"'), 10) == "01234567"
    with pytest.raises(PlatformError):
        parse(io.BytesIO(b'"012345678"'), 10)
