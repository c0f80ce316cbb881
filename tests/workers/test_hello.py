"""How the platform sees a worker: hello until it is heard, then signs of life, then goodbye."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.workers.fake_platform import Platform
from workers import hello
from workers.api import FleetApi
from workers.hello import Presence
from workers.http import Http

Start = Callable[..., Platform]
MANIFEST = {"passes": [{"name": "merge"}]}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hello, "FIRST_PAUSE_S", 0.05)


@contextmanager
def present(one: Platform, floor: Callable[[], dict[str, Any]] = dict) -> Iterator[Presence]:
    with Http(one.address, "w" * 32) as http:
        presence = Presence(FleetApi(http, name="left", host="h", target="cpu"), MANIFEST, floor)
        presence.start()
        try:
            yield presence
        finally:
            presence.end()


def test_it_says_what_it_is_and_then_that_it_lives(platform: Start) -> None:
    one = platform()
    with present(one):
        one.wait_for(lambda: one.calls.count("alive") >= 2)
    assert one.hellos == [{"name": "left", "host": "h", "target": "cpu", "manifest": MANIFEST}]
    assert one.tokens == {"Bearer " + "w" * 32}
    assert one.calls[-1] == "goodbye" and one.calls.count("goodbye") == 1


def test_a_platform_that_is_not_up_yet_is_asked_again(platform: Start) -> None:
    one = platform(unwell=3)
    with present(one):
        one.wait_for(lambda: bool(one.hellos))
    assert one.calls[:4] == ["hello"] * 4


def test_a_platform_that_forgot_it_hears_hello_again(platform: Start) -> None:
    one = platform(refuse_once={"alive": (404, "fleet:usage:unknown-worker", "who?")})
    with present(one):
        one.wait_for(lambda: len(one.hellos) == 2)


def test_a_silent_platform_does_not_end_the_signs_of_life(platform: Start) -> None:
    one = platform()
    with present(one):
        one.wait_for(lambda: "alive" in one.calls)
        one.unwell = 1
        lived = one.calls.count("alive")
        one.wait_for(lambda: one.calls.count("alive") >= lived + 2)
    assert len(one.hellos) == 1


def test_a_noise_floor_is_told_when_it_was_measured(platform: Start) -> None:
    one, floor = platform(), {}
    with present(one, lambda: dict(floor)):
        one.wait_for(lambda: "alive" in one.calls)
        floor.update(noise_floor=0.012, noise_floor_conditions={"fingerprint": "f"})
        one.wait_for(lambda: len(one.hellos) == 2)
    assert "noise_floor" not in one.hellos[0]
    assert one.hellos[1]["noise_floor"] == 0.012


def test_goodbye_is_said_once_and_only_by_who_was_heard(platform: Start) -> None:
    one = platform(refuse={"hello": (403, "x", "no")})
    with present(one) as presence:
        one.wait_for(lambda: one.calls.count("hello") >= 2)
        presence.end()
    assert "goodbye" not in one.calls
