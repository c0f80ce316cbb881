"""The result document of a run, whole; what lists sort by; and its predicted gains with what came of them."""

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


class CheckedGain(Row):
    """One of the document's `checked_gains`: a finding's predicted gain, and what the run measured of its remedy."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="checked_gains")
    rule = models.CharField(max_length=80)
    remedy = models.CharField(max_length=300, help_text="pass NAME or setting NAME, several joined by +")
    target = models.CharField(max_length=40)
    predicted_low = models.FloatField()
    predicted_high = models.FloatField()
    confidence = models.FloatField(null=True, help_text="null: the prediction was not corrected by records")
    uncorrected_low = models.FloatField(null=True)
    uncorrected_high = models.FloatField(null=True)
    model = models.TextField(blank=True, help_text="how the interval was worked out")
    realised = models.FloatField(null=True, help_text="time without the remedy / time with it; null: not measured")
    realised_low = models.FloatField(null=True)
    realised_high = models.FloatField(null=True)
    evidence = models.CharField(max_length=12, blank=True, help_text="judgement, ablation, finalists, screening")
    measured_on = models.CharField(max_length=300, blank=True)
    reason = models.CharField(max_length=500, blank=True, help_text="why nothing was measured of it")

    objects = Results.as_manager()

    class Meta:
        indexes: ClassVar[list[Any]] = [models.Index(fields=["rule", "remedy"])]
