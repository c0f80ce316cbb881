"""Which dispatcher is at work: the one whose session holds an advisory lock of the database."""

from __future__ import annotations

from django.db import connection

LOCK = 0x66757365  # "fuse"
HELD = """
SELECT EXISTS (
    SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid = %s AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
"""


def is_led() -> bool:
    """Whether any dispatcher is at work. Without one runs wait, and silent workers are not noticed."""
    with connection.cursor() as cursor:
        cursor.execute(HELD, [LOCK])
        (held,) = cursor.fetchone()
    return bool(held)
