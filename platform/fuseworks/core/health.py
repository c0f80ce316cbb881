"""Health checks: small questions to what the site needs, none of which waits longer than its time-out. Not for
monitoring of runs.

A check registers itself with `@health_check`. It returns what it saw; raises `Unhealthy` with the reason when this
process cannot serve pages, and `Degraded` when it can and something else is wrong: whoever takes a site out of service
for that only makes it worse.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import redis
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseFailure
from django.db import connection
from django.template.loader import get_template
from redis.backoff import NoBackoff
from redis.retry import Retry

from fuseworks.core.storage import free_bytes
from fuseworks.fleet.leadership import is_led
from fuseworks.fleet.selectors import queues

log = logging.getLogger(__name__)

FREE_DISK_BYTES = 1 << 30
REACH_TIMEOUT_S = 1.0


class Unhealthy(Exception):
    """Why this site can serve nobody, for the operator."""


class Degraded(Exception):
    """What is wrong although pages work, for the operator."""


@dataclass(frozen=True)
class Health:
    """`serves`: whether pages work, as far as this check can tell; one that is not `ok` may serve all the same."""

    name: str
    ok: bool
    serves: bool
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
    ok, serves = True, True
    try:
        detail = question()
    except (Unhealthy, Degraded) as error:
        ok, serves, detail = False, isinstance(error, Degraded), str(error)
    return Health(name, ok, serves, detail, time.perf_counter() - started)


@health_check
def disk() -> str:
    """Where uploads and results lie; the folder is made by the first of them."""
    free = free_bytes(Path(settings.STORAGE).absolute())
    if free < FREE_DISK_BYTES:
        raise Degraded(f"only {free >> 20} MiB are free where Fuseworks keeps its files")
    return f"{free / (1 << 30):.0f} GiB free"


@health_check
def templates() -> str:
    get_template("core/home.html")
    return f"{len(apps.app_configs)} apps loaded"


# What a server says of itself goes into the log: strangers read this page.
@health_check
def database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseFailure, ImproperlyConfigured) as error:
        log.error("the database does not answer: %s", error)
        raise Unhealthy("the database does not answer") from error
    return "answers"


@health_check
def dispatcher() -> str:
    """Told and no more: it starts after the site, and an orchestrator must not end a site that works."""
    try:
        led = is_led()
    except (DatabaseFailure, ImproperlyConfigured) as error:
        log.error("whether a dispatcher is at work is not known: %s", error)
        return "not known: the database does not answer"
    return "at work" if led else "none is at work: runs stay in the queue until one starts"


@health_check
def workers() -> str:
    """A target without a worker matters once a run waits for it."""
    try:
        known = queues()
    except (DatabaseFailure, ImproperlyConfigured) as error:
        log.error("which workers are alive is not known: %s", error)
        return "not known: the database does not answer"
    left = ", ".join(f"{queue.target} ({queue.waiting} waiting)" for queue in known if queue.is_unserved)
    if left:
        raise Degraded(f"runs wait and no worker is alive for {left}")
    alive = ", ".join(f"{queue.target}: {queue.workers}" for queue in known if queue.workers)
    return f"alive: {alive}" if alive else "none is alive, and nothing waits for one"


@health_check
def broker() -> str:
    """Without it runs stay in the queue; pages still work."""
    if not settings.REDIS_URL:
        raise Degraded("no broker is set (REDIS_URL): runs would stay in the queue")
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=REACH_TIMEOUT_S,
            socket_connect_timeout=REACH_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # by itself the client tries again, with pauses of seconds
        ) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:  # ValueError: an address that is none
        log.error("the broker does not answer: %s", error)
        raise Degraded("the broker does not answer: runs stay in the queue") from error
    return "answers"


@health_check
def services() -> str:
    """Whether further servers that the operator named (`name=host:port`) accept a connection."""
    reached = [_reach(service) for service in settings.HEALTH_SERVICES]
    return f"reachable: {', '.join(reached)}" if reached else "none configured"


def _reach(service: str) -> str:
    name, _, address = service.partition("=")
    host, _, port = address.rpartition(":")
    if not (name and host and port.isdigit()):
        log.error("FUSEWORKS_HEALTH_SERVICES has %r; write name=host:port", service)
        raise Unhealthy("FUSEWORKS_HEALTH_SERVICES is misspelt; the log of the site says where")
    try:
        with socket.create_connection((host, int(port)), timeout=REACH_TIMEOUT_S):
            return name
    except OSError as error:
        log.error("%s does not answer at %s: %s", name, address, error)
        raise Unhealthy(f"{name} does not answer") from error
