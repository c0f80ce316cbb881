"""The registry that kernels, passes, backends and rules share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernels.registry import DuplicateName, Registry, UnknownName


class Thing:
    name = "thing"


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> str:
    """A package of its own, importable under the name of its folder."""
    home = folder / f"registry_of_{folder.name.replace('-', '_')}"
    home.mkdir()
    (home / "__init__.py").write_text("")
    for name, source in modules.items():
        (home / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    return home.name


def test_a_definition_is_found_under_its_name_once() -> None:
    registry: Registry[Thing] = Registry("thing", "kernels.ops")
    registry.register(Thing)
    assert registry.get("thing").name == "thing"
    with pytest.raises(DuplicateName, match="two things are called 'thing'"):
        registry.register(Thing)


def test_an_unknown_name_lists_the_known_ones() -> None:
    registry: Registry[Thing] = Registry("thing", "kernels.ops")
    registry.register(Thing)
    with pytest.raises(UnknownName, match="no thing called 'other'; known: thing"):
        registry.get("other")


def test_a_module_that_does_not_import_stops_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = package(tmp_path, monkeypatch, good="", bad="import nothing_of_this_name")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
        Registry("thing", name).load()


def test_private_modules_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = package(tmp_path, monkeypatch, _private="raise RuntimeError", good="")
    Registry("thing", name).load()
    assert f"{name}.good" in sys.modules
    assert f"{name}._private" not in sys.modules
