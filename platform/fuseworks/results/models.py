"""The result document of a run, whole, and the headline figures that lists sort and filter by."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from fuseworks.core.models import Row, Scoped
from fuseworks.runs.models import Run


class Results(Scoped):
    team_path = "run__team"


class RunResult(Row):
    """`document` is `optimizer.result.Result` as the coordinator wrote it; nothing here is computed anew from it.
    `curves` is `results.reading.latencies.Thinned`, made of the samples when the page is first read."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="result")
    attempt = models.PositiveIntegerField()
    document = models.JSONField()
    verdict = models.CharField(max_length=12, blank=True)
    speedup = models.FloatField(null=True)
    speedup_low = models.FloatField(null=True)
    speedup_high = models.FloatField(null=True)
    speedup_as_deployed = models.FloatField(null=True)
    baseline_ms = models.FloatField(null=True)
    best_ms = models.FloatField(null=True)
    winner = models.CharField(max_length=300, blank=True)
    curves = models.JSONField(null=True, help_text="the samples, thinned for drawing; null: not made yet")
    fingerprint = models.CharField(max_length=64, blank=True, help_text="of the conditions")

    objects = Results.as_manager()

    class Meta:
        indexes: ClassVar[list[Any]] = [models.Index(fields=["verdict", "-speedup"])]
