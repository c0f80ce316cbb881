"""The system checks of Fuseworks see what they are for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from fuseworks.core import checks


def ids(messages: list) -> list[str]:
    return [message.id for message in messages]


def test_an_engine_in_the_web_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in checks.FORBIDDEN:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert checks.the_web_process_holds_no_engine(None) == []
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    assert ids(checks.the_web_process_holds_no_engine(None)) == ["fuseworks.E001"]


def test_an_init_file_that_replaces_the_standard_library_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "platform").mkdir()
    with override_settings(ROOT=tmp_path):
        assert checks.the_source_root_shadows_nothing(None) == []
        (tmp_path / "platform" / "__init__.py").touch()
        assert ids(checks.the_source_root_shadows_nothing(None)) == ["fuseworks.E002"]


def test_missing_templates_are_an_error(tmp_path: Path) -> None:
    with override_settings(FRONTEND=tmp_path):
        assert ids(checks.the_templates_are_there(None)) == ["fuseworks.E003"]


def test_django_runs_them(tmp_path: Path) -> None:
    with override_settings(FRONTEND=tmp_path):
        assert "fuseworks.E003" in ids(run_checks())
