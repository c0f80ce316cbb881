"""One registry class for everything that registers itself where it is defined: kernels, passes, backends, rules.

A registry belongs to a package. `load()` imports every module of that package once; each module registers what it
defines with the registry's decorator. A duplicate name or a module that does not import stops start-up: a pass that
silently went missing would be a recipe that silently changed.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar


class Named(Protocol):
    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=Named)


class DuplicateName(RuntimeError):
    """Two definitions claim one name."""


class UnknownName(KeyError):
    """No definition has this name; the message lists the known ones."""

    def __str__(self) -> str:
        return str(self.args[0])


class Registry(Generic[Item]):
    """Names to instances, filled by the modules of one package."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._items: dict[str, Item] = {}
        self._loaded = False

    def register(self, definition: Callable[[], Item]) -> Callable[[], Item]:
        """Class decorator: instantiates the class once and files it under its `name`."""
        item = definition()
        if item.name in self._items:
            raise DuplicateName(f"two {self.kind}s are called {item.name!r}")
        self._items[item.name] = item
        return definition

    def load(self) -> None:
        if self._loaded:
            return
        package = importlib.import_module(self.package)
        for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")):
            importlib.import_module(f"{self.package}.{module}")
        self._loaded = True

    def get(self, name: str) -> Item:
        self.load()
        if name not in self._items:
            raise UnknownName(f"there is no {self.kind} called {name!r}; known: {', '.join(sorted(self._items))}")
        return self._items[name]

    def names(self) -> list[str]:
        self.load()
        return sorted(self._items)

    def __iter__(self) -> Iterator[Item]:
        self.load()
        return iter([self._items[name] for name in sorted(self._items)])
