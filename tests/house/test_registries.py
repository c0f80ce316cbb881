"""Everything that registers itself is found by listing, and stands in a file of its own name."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import kernels
import optimizer
from kernels.registry import Registry


def registries() -> dict[str, Registry]:
    """Every registry of the optimizer and the kernels: they live in modules called `base`, `spec` or `registry`."""
    found: dict[str, Registry] = {}
    for root in (kernels, optimizer):
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if module.name.rpartition(".")[2] in {"base", "spec", "registry"}:
                values = vars(importlib.import_module(module.name)).values()
                found |= {value.package: value for value in values if isinstance(value, Registry)}
    return found


REGISTRIES = registries()


def test_kernels_passes_backends_and_rules_each_have_a_registry() -> None:
    assert {"kernels.ops", "optimizer.optimizing.passes", "optimizer.compiling.backends"} <= set(REGISTRIES)
    assert "optimizer.diagnosing.rules" in REGISTRIES


@pytest.mark.parametrize("package", REGISTRIES)
def test_a_registry_is_not_empty(package: str) -> None:
    assert REGISTRIES[package].names()


@pytest.mark.parametrize("package", REGISTRIES)
def test_each_definition_stands_in_a_file_of_its_name(package: str) -> None:
    misplaced = {
        item.name: type(item).__module__
        for item in REGISTRIES[package]
        if type(item).__module__ != f"{package}.{item.name.replace('-', '_')}"
    }
    assert not misplaced


@pytest.mark.parametrize("package", REGISTRIES)
def test_each_module_of_a_registrys_package_registers_something(package: str) -> None:
    modules = {m.name for m in pkgutil.iter_modules(importlib.import_module(package).__path__) if m.name[0] != "_"}
    modules -= {"base"}  # what the package's definitions share
    assert modules == {name.replace("-", "_") for name in REGISTRIES[package].names()}
