"""Workers as they last told of themselves."""

from __future__ import annotations

from django.db import models

from fuseworks.core.models import Row


class Worker(Row):
    """One worker process on one host. `manifest` says what it can do: passes, kernels, backends, devices."""

    name = models.CharField(max_length=200, unique=True, help_text="host and queue, stable over restarts")
    host = models.CharField(max_length=200)
    target = models.CharField(max_length=40, help_text="the queue that it serves: cpu, cuda:sm_90")
    manifest = models.JSONField(default=dict)
    noise_floor = models.FloatField(null=True, help_text="of its own A/A, as a share: 0.02 is 2 %")
    noise_floor_conditions = models.JSONField(default=dict)
    last_seen_at = models.DateTimeField()
    started_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True, help_text="when it said that it ends")

    def __str__(self) -> str:
        return self.name
