"""Reads a team's audit log: filtered, and as CSV. Who is no owner of the team reads none of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import Q, QuerySet

from fuseworks.accounts.models import AuditEntry, Team
from fuseworks.accounts.permissions import MANAGE, Actor, require
from fuseworks.core.exporting import cell

COLUMNS = ("at", "who", "email", "action", "object_type", "object_id", "detail", "address")


def entries(
    *,
    actor: Actor,
    team: Team,
    what: str = "",
    who: str = "",
    since: date | None = None,
    until: date | None = None,
) -> QuerySet[AuditEntry]:
    """Newest first; both days are in, as UTC counts them. Raises PlatformError."""
    require(actor, team, MANAGE)
    found: QuerySet[AuditEntry] = AuditEntry.objects.visible_to(actor).filter(team=team)
    if what:
        found = found.filter(action__icontains=what)
    if who:
        found = found.filter(Q(actor__email__icontains=who) | Q(actor__name__icontains=who))
    if since is not None:
        found = found.filter(created_at__gte=_midnight(since))
    if until is not None:
        found = found.filter(created_at__lt=_midnight(until) + timedelta(days=1))
    return found.select_related("actor").order_by("-created_at", "pk")


def csv_lines(found: QuerySet[AuditEntry]) -> Iterator[str]:
    """English, for programs."""
    writer = csv.writer(_Echo(), lineterminator="\n")
    yield writer.writerow(COLUMNS)
    for entry in found.iterator():
        who = entry.actor
        row = (
            entry.created_at.astimezone(UTC).isoformat(timespec="seconds"),
            who.name_in_api if who is not None else "",
            who.email if who is not None and who.closed_at is None else "",
            entry.action,
            entry.object_type,
            str(entry.object_id or ""),
            json.dumps(entry.detail, ensure_ascii=False, sort_keys=True),
            entry.address or "",
        )
        yield writer.writerow([cell(value) for value in row])


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


class _Echo:
    """What `csv` writes to, when every line is handed on at once."""

    def write(self, line: str) -> str:
        return line
