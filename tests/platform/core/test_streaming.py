"""The body of an ASGI request as a file: whole blocks, lines, and what is left of a sender who goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fuseworks.core import streaming
from fuseworks.core.streaming import Body

GONE = {"type": "http.disconnect"}


def more(data: bytes) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": True}


def last(data: bytes) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": False}


def taken(messages: list[dict[str, Any]], view: Callable[[Body], Any]) -> tuple[Any, int]:
    """What `view` makes of a body in a thread, and how many messages were never received."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.sleep(3600)  # a sender that says nothing more
        return left.pop(0)

    async def serve() -> Any:
        return await asyncio.to_thread(view, Body(receive))

    # in a thread of its own: a browser's tests leave this one a loop that runs
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, serve()).result(), len(left)


def test_a_block_is_as_long_as_asked_for_until_the_end() -> None:
    sent = [more(b"abc"), more(b""), more(b"defg"), last(b"h")]
    assert taken(sent, lambda body: [body.read(5), body.read(2), body.read(9), body.read(9)]) == (
        [b"abcde", b"fg", b"h", b""],
        0,
    )
    assert taken(sent, lambda body: body.read()) == (b"abcdefgh", 0)


def test_nothing_is_received_before_it_is_asked_for() -> None:
    assert taken([more(b"abc"), last(b"d")], lambda body: None) == (None, 2)
    assert taken([more(b"abc"), last(b"d")], lambda body: body.read(2)) == (b"ab", 1)


def test_lines_end_where_they_end_and_long_ones_come_in_parts() -> None:
    def lines(body: Body) -> list[int]:
        return [len(line) for line in iter(body.readline, b"")]

    found, _ = taken([more(b"ab"), more(b"c\n\nx"), last(b"y" * 5000)], lines)
    assert found == [4, 1, 4096, 905]


def test_what_came_of_a_sender_who_went_is_handed_out_before_it_is_an_error() -> None:
    def view(body: Body) -> bytes:
        data = body.read(9)
        for _ in range(2):
            with pytest.raises(ConnectionResetError):
                body.read(1)
        return data

    assert taken([more(b"abc"), GONE], view) == (b"abc", 0)


def test_a_sender_who_says_nothing_more_counts_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SILENCE_S", 0.2)

    def view(body: Body) -> bytes:
        data = body.read(9)
        with pytest.raises(TimeoutError):
            body.read(1)
        return data

    assert taken([more(b"abc")], view) == (b"abc", 0)
