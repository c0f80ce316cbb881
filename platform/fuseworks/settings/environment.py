"""Reads settings out of the environment, and a development secret out of the state folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

CONNECT_TIMEOUT_S = 3


def required(name: str, why: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ImproperlyConfigured(f"Set the environment variable {name}: {why}")
    return value


def flag(name: str) -> bool:
    """Whether a switch is on. A misspelt value is an error: it would otherwise silently mean off."""
    value = os.environ.get(name, "0")
    if value not in {"0", "1", ""}:
        raise ImproperlyConfigured(f"{name} is 1 or 0, not {value!r}")
    return value == "1"


def words(name: str) -> list[str]:
    """A list of values separated by commas or spaces."""
    return os.environ.get(name, "").replace(",", " ").split()


def development_secret(state: Path) -> str:
    """The secret key of this checkout: drawn once, kept in a file that only its owner reads."""
    path = state / "secret-key"
    try:
        return path.read_text()
    except FileNotFoundError:
        state.mkdir(parents=True, exist_ok=True)
        # A rename makes two processes that start together agree on one key.
        draft = state / f"secret-key.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # the other process was first: its key holds
        finally:
            draft.unlink()
        return path.read_text()


def text(name: str, default: str) -> str:
    return os.environ.get(name) or default


def number(name: str, default: int) -> int:
    value = os.environ.get(name) or str(default)
    if not value.isdigit():
        raise ImproperlyConfigured(f"{name} is a whole number, not {value!r}")
    return int(value)


def mail_security(tls: str, port: str) -> tuple[int, bool, bool]:
    """Port of the mail server, whether STARTTLS, whether TLS from the first byte. By default neither, on port 25."""
    value = os.environ.get(tls) or "none"
    usual = {"none": 25, "starttls": 587, "tls": 465}
    if value not in usual:
        raise ImproperlyConfigured(f"{tls} is one of {', '.join(usual)}, not {value!r}")
    return number(port, usual[value]), value == "starttls", value == "tls"


def database(name: str) -> dict[str, Any]:
    """Django's settings for PostgreSQL out of a URL or a libpq connection string.

    Without one nothing can be stored; commands that store nothing (checks, the collection of static files) still work.
    """
    url = os.environ.get(name, "")
    if not url:
        return {"ENGINE": "django.db.backends.dummy"}
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise ImproperlyConfigured(f"{name} is no PostgreSQL address: {error}") from error
    known = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    # Without a time-out a request would hang for minutes where the server's machine is gone, and the health page too.
    options = {"connect_timeout": CONNECT_TIMEOUT_S, **{k: v for k, v in parts.items() if k not in known.values()}}
    settings = {django: str(parts.get(libpq) or "") for django, libpq in known.items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        **settings,
        # Under ASGI each request has a thread of its own; a connection that it kept nobody would find again. No pool
        # either: a session that went back to one lives on, and with it the lock by which a dispatcher leads.
        "CONN_MAX_AGE": 0,
        "OPTIONS": options,
    }
