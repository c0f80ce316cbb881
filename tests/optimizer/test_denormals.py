"""Denormals are flushed where a thread asks for it and in those that it starts, and the processor says whether."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator

import pytest

from optimizer import denormals

pytestmark = pytest.mark.skipif(denormals.unavailable() is not None, reason=str(denormals.unavailable()))
SMALL = [1e-310, 2.0]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    denormals.flush(False)


def test_they_are_kept_until_it_is_asked_for_and_again_afterwards() -> None:
    assert not denormals.flushed()
    assert SMALL[0] * SMALL[1] == 2e-310
    assert denormals.flush()
    assert SMALL[0] * SMALL[1] == 0.0
    assert not denormals.flush(False)
    assert SMALL[0] * SMALL[1] == 2e-310


def test_normal_numbers_stay_what_they_were() -> None:
    denormals.flush()
    assert [1e-300][0] * 2.0 == 2e-300


def test_a_thread_that_is_started_afterwards_takes_it_over_and_one_that_ran_before_does_not() -> None:
    asked, done = threading.Event(), threading.Event()
    found: dict[str, bool] = {}

    def before() -> None:
        asked.wait(30)
        found["before"] = denormals.flushed()
        done.set()

    earlier = threading.Thread(target=before)
    earlier.start()
    denormals.flush()
    later = threading.Thread(target=lambda: found.update(after=denormals.flushed()))
    later.start()
    later.join(30)
    asked.set()
    assert done.wait(30)
    earlier.join(30)
    assert found == {"after": True, "before": False}


def test_another_processor_or_c_library_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert "riscv64" in (denormals.unavailable() or "")
    assert not denormals.flush()
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert "C library" in (denormals.unavailable() or "")
