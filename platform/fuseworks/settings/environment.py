"""Reads settings out of the environment, and a development secret out of the state folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


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
