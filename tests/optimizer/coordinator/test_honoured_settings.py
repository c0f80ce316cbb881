"""Settings that every candidate gets: what the machine honours; denormals flushed where they were measured to cost."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer import runtime_settings
from optimizer.coordinator.prepare import honoured_settings
from optimizer.result import Profile
from optimizer.spec import RuntimeSettings
from tests.optimizer.coordinator.support import context


@pytest.fixture(autouse=True)
def all_honoured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    reasons: dict[str, Any] = {"allocator": None, "huge_pages": None, "denormals": None}
    monkeypatch.setattr(runtime_settings, "available", lambda: {"reasons": reasons})
    return reasons


@pytest.mark.parametrize(("gain", "denormals"), [(None, "kept"), (1.19, "kept"), (1.2, "flushed"), (30.0, "flushed")])
def test_denormals_are_flushed_where_the_profile_shows_what_they_cost(
    tmp_path: Any, gain: float | None, denormals: str
) -> None:
    found = honoured_settings(context(tmp_path), Profile(total_ms=1.0, denormals_gain=gain))
    assert (found.denormals, found.allocator, found.huge_pages) == (denormals, "glibc-no-trim", True)


def test_without_a_profile_they_are_kept_and_what_a_machine_lacks_is_left_out(
    tmp_path: Any, all_honoured: dict[str, Any]
) -> None:
    all_honoured["huge_pages"] = "never"
    assert honoured_settings(context(tmp_path)) == RuntimeSettings(allocator="glibc-no-trim")


def test_a_policy_may_forbid_them_all(tmp_path: Any) -> None:
    made = context(tmp_path, runtime_settings=False)
    assert honoured_settings(made, Profile(total_ms=1.0, denormals_gain=9.0)) == RuntimeSettings()
