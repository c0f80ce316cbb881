"""Checks of a CI gate: a limit on latency_ratio, and what the comparison said of it."""

from __future__ import annotations

from django.db import models

from fuseworks.core.models import Row, Scoped
from fuseworks.runs.models import Run

MAX_REASON = 300


class Outcome(models.TextChoices):
    """`pass`: the interval's upper end is at most the limit; `fail`: its lower end is above it; else cannot tell, also
    where the version before cannot be packaged any more. `no_result`: the run's status says whose fault that is."""

    PENDING = "pending"
    PASS = "pass"
    FAIL = "fail"
    CANNOT_TELL = "cannot_tell"
    NO_RESULT = "no_result"


class GateChecks(Scoped):
    team_path = "run__team"


class GateCheck(Row):
    run = models.OneToOneField(Run, models.CASCADE, related_name="gate_check")
    max_latency_ratio = models.FloatField()
    outcome = models.CharField(max_length=12, choices=Outcome.choices, default=Outcome.PENDING)
    latency_ratio = models.FloatField(null=True)
    latency_ratio_low = models.FloatField(null=True)
    latency_ratio_high = models.FloatField(null=True)
    reason = models.CharField(max_length=MAX_REASON, blank=True, help_text="why the interval carries no verdict")

    objects = GateChecks.as_manager()
