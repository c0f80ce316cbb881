"""Wakes the dispatcher: a NOTIFY, delivered when the transaction commits. A lost one costs a second, never a run."""

from __future__ import annotations

from django.db import connection

CHANNEL = "fuseworks_runs"


def ring() -> None:
    """Call it wherever a run begins to wait, or a worker becomes free."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
