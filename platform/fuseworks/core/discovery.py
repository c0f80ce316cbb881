"""Pages and endpoints register where they are defined: a module in an app's `pages/` with `@page("fleet/", ...)` above
its view, a module in an app's `api/` with `@endpoint("runs/", ...)` above its class.

A walk of every Fuseworks app finds them. Two at one address or of one name, or a module that does not import, stop
start-up.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.apps import apps
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import URLPattern, is_valid_path, path, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.http import url_has_allowed_host_and_scheme

View = Callable[..., HttpResponseBase]
API = "api/v1/"
STOP_POLLING = 286  # htmx asks no more when it is answered so


@dataclass(frozen=True)
class Page:
    """`address` without the leading slash. `menu`: its place in the menu, from the left; None keeps it out."""

    name: str
    address: str
    title: Any
    view: View
    menu: int | None = None

    def pattern(self) -> URLPattern:
        return path(self.address, self.view, name=self.name)


@dataclass(frozen=True)
class Endpoint:
    """`address` below `/api/v1/`. Its name in `reverse()` is `api:NAME`."""

    name: str
    address: str
    view: Any

    def pattern(self) -> URLPattern:
        return path(self.address, self.view.as_view(), name=self.name)


_pages: dict[str, Page] = {}
_endpoints: dict[str, Endpoint] = {}


class Clash(RuntimeError):
    """Two pages or two endpoints claim one name or one address."""


def page(
    address: str, *, title: Any, name: str | None = None, menu: int | None = None, public: bool = False
) -> Callable[[View], View]:
    """Registers a view, by default under the name of the module that defines it. Strangers are sent to sign in unless
    it is `public`."""

    def register(view: View) -> View:
        shown = view if public else _signed_in(view)
        _add(_pages, Page(name or _module(view), address, title, shown, menu), view)
        return view

    return register


def endpoint(address: str, *, name: str | None = None) -> Callable[[Any], Any]:
    """Registers an APIView class, by default under the name of the module that defines it."""

    def register(view: Any) -> Any:
        _add(_endpoints, Endpoint(name or _module(view), address, view), view)
        return view

    return register


def pages() -> list[Page]:
    """All pages of all installed Fuseworks apps, by address."""
    _walk("pages")
    return sorted(_pages.values(), key=lambda p: p.address)


def endpoints() -> list[Endpoint]:
    """All endpoints of all installed Fuseworks apps, by address."""
    _walk("api")
    return sorted(_endpoints.values(), key=lambda e: e.address)


def _signed_in(view: View) -> View:
    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            answer = view(request, *args, **kwargs)
            return redirect(_page_above(request)) if _only_takes_forms(request, answer) else answer
        if request.headers.get("HX-Request") == "true":
            return _sent_away(request)
        return redirect_to_login(_page_to_come_back_to(request))

    return guarded


def _only_takes_forms(request: HttpRequest, answer: HttpResponseBase) -> bool:
    """A refused form leaves its own address in the browser, which must be something to look at when asked again."""
    is_refused = request.method in ("GET", "HEAD") and answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    return is_refused and "GET" not in answer.headers["Allow"]


def _page_above(request: HttpRequest) -> str:
    """Of the pages whose address the request's begins with the longest; else the dashboard."""
    parts = request.path_info.strip("/").split("/")
    for length in range(len(parts) - 1, 0, -1):
        above = f"/{'/'.join(parts[:length])}/"
        if is_valid_path(above):
            return above
    return reverse("home")


def _sent_away(request: HttpRequest) -> HttpResponse:
    """To a live part of a page whose session has ended: the whole page goes to sign in, and nothing asks again."""
    shown = redirect_to_login(_here(request, request.headers.get("HX-Current-URL", "")))
    answer = HttpResponse(status=STOP_POLLING, headers={"HX-Redirect": shown.url})
    add_never_cache_headers(answer)
    return answer


def _page_to_come_back_to(request: HttpRequest) -> str:
    """What only takes forms cannot be come back to: the page that sent the form can."""
    if request.method in ("GET", "HEAD"):
        return request.get_full_path()
    return _here(request, request.headers.get("Referer", ""))


def _here(request: HttpRequest, address: str) -> str:
    """Path and query of an address of this site; the dashboard's in place of any other."""
    if not url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()}):
        return reverse("home")
    parts = urlsplit(address)
    return urlunsplit(("", "", parts.path or "/", parts.query, ""))


def _module(view: Any) -> str:
    name: str = view.__module__.rpartition(".")[2]
    return name


def _add(registered: dict[str, Any], new: Any, view: Any) -> None:
    for old in registered.values():
        if new.name == old.name or new.address == old.address:
            raise Clash(
                f"{view.__module__}: {new.name!r} at {new.address!r} clashes with {old.name!r} at {old.address!r}"
            )
    registered[new.name] = new


def _walk(kind: str) -> None:
    for app in apps.get_app_configs():
        if app.name.startswith("fuseworks."):
            _import_modules(f"{app.name}.{kind}")


def _import_modules(package_name: str) -> None:
    if importlib.util.find_spec(package_name) is None:
        return
    package: Any = importlib.import_module(package_name)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package_name}.{module.name}")
