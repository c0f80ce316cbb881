"""Health checks: small questions to what the site needs, each answered within a second. Not for monitoring of runs.

A check registers itself with `@health_check`; it returns what it saw, or raises `Unhealthy` with the reason.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.apps import apps
from django.conf import settings
from django.template.loader import get_template

FREE_DISK_BYTES = 1 << 30
REACH_TIMEOUT_S = 1.0


class Unhealthy(Exception):
    """What is wrong, for the operator."""


@dataclass(frozen=True)
class Health:
    name: str
    ok: bool
    detail: str
    seconds: float


Question = Callable[[], str]
_questions: dict[str, Question] = {}


def health_check(question: Question) -> Question:
    """Registers a check under its function's name."""
    if question.__name__ in _questions:
        raise RuntimeError(f"two health checks are called {question.__name__!r}")
    _questions[question.__name__] = question
    return question


def examine() -> list[Health]:
    return [_ask(name.replace("_", " "), question) for name, question in sorted(_questions.items())]


def _ask(name: str, question: Question) -> Health:
    started = time.perf_counter()
    try:
        ok, detail = True, question()
    except Unhealthy as error:
        ok, detail = False, str(error)
    return Health(name, ok, detail, time.perf_counter() - started)


@health_check
def disk() -> str:
    free = shutil.disk_usage(settings.ROOT).free
    if free < FREE_DISK_BYTES:
        raise Unhealthy(f"only {free >> 20} MiB are free where Fuseworks is installed")
    return f"{free / (1 << 30):.0f} GiB free"


@health_check
def templates() -> str:
    get_template("core/home.html")
    return f"{len(apps.app_configs)} apps loaded"


@health_check
def services() -> str:
    """Whether the configured servers (`name=host:port`) accept a connection. This version stores nothing in them."""
    reached = [_reach(service) for service in settings.HEALTH_SERVICES]
    return f"reachable: {', '.join(reached)}" if reached else "none configured"


def _reach(service: str) -> str:
    name, _, address = service.partition("=")
    host, _, port = address.rpartition(":")
    if not (name and host and port.isdigit()):
        raise Unhealthy(f"FUSEWORKS_HEALTH_SERVICES has {service!r}; write name=host:port")
    try:
        with socket.create_connection((host, int(port)), timeout=REACH_TIMEOUT_S):
            return name
    except OSError as error:
        raise Unhealthy(f"{name} does not answer at {address}: {error}") from error
