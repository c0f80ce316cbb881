"""Reads checks of gates."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import QuerySet

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.gates import errors  # noqa: F401  (importing registers)
from fuseworks.gates.models import GateCheck
from fuseworks.runs.models import Run
from fuseworks.runs.selectors import sees_against


def checks(*, actor: Actor) -> QuerySet[Any]:
    """Newest first. `sees_against`: whether the reader may see what the run compares with."""
    related = ("run__team", "run__version__model__team", "run__against__model", "run__created_by")
    found = GateCheck.objects.visible_to(actor).select_related(*related)
    return found.annotate(sees_against=sees_against(actor=actor, path="run__against")).order_by("-created_at")


def check_of_run(*, actor: Actor, run_id: uuid.UUID) -> GateCheck:
    """Raises PlatformError: 404 for a run that may not be seen, and for one without a gate (`gates:usage:no-check`)."""
    run = get_or_404(Run.objects.visible_to(actor), what="run", pk=run_id)
    check = checks(actor=actor).filter(run=run).first()
    if check is None:
        raise PlatformError("gates:usage:no-check")
    return check
