"""Pages register where they are defined: a module in an app's `pages/` with `@page("health/")` above its view.

A walk of every Fuseworks app finds them. Two pages at one address or of one name, or a module that does not import,
stop start-up. `api/` of an app joins this walk when the first endpoint is written.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.http import HttpResponseBase
from django.urls import URLPattern, path

View = Callable[..., HttpResponseBase]


@dataclass(frozen=True)
class Page:
    """`address` without the leading slash; `title` is the link's text on the home page."""

    name: str
    address: str
    title: str
    view: View

    def pattern(self) -> URLPattern:
        return path(self.address, self.view, name=self.name)


_registered: dict[str, Page] = {}


class PageClash(RuntimeError):
    """Two pages claim one name or one address."""


def page(address: str, *, title: str) -> Callable[[View], View]:
    """Registers a view under the name of the module that defines it."""

    def register(view: View) -> View:
        new = Page(view.__module__.rpartition(".")[2], address, title, view)
        for old in _registered.values():
            if new.name == old.name or new.address == old.address:
                raise PageClash(f"{view.__module__} and {old.view.__module__} share a name or an address")
        _registered[new.name] = new
        return view

    return register


def pages() -> list[Page]:
    """All pages of all installed Fuseworks apps, by address."""
    for app in apps.get_app_configs():
        if app.name.startswith("fuseworks."):
            _import_modules(f"{app.name}.pages")
    return sorted(_registered.values(), key=lambda p: p.address)


def _import_modules(package_name: str) -> None:
    if importlib.util.find_spec(package_name) is None:
        return
    package: Any = importlib.import_module(package_name)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package_name}.{module.name}")
