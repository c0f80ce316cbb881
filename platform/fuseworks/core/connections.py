"""The database's connections are few: whoever is about to wait for somebody outside lets go of his."""

from __future__ import annotations

from django.db import connection


def let_go() -> None:
    """The next query opens another one. Within a transaction it is kept."""
    if not connection.in_atomic_block:
        connection.close()
