"""Runs, their attempts, events and artifacts. Only `runs.transitions` changes a run's status."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from fuseworks.accounts.models import Team, User
from fuseworks.core.models import Row, Scoped
from fuseworks.registry.models import ModelVersion, Workload


class Purpose(models.TextChoices):
    """The optimizer's `Purpose`."""

    INSPECT = "inspect"
    OPTIMIZE = "optimize"
    REPLAY = "replay"
    COMPARE = "compare"
    EXPLAIN = "explain"
    DIAGNOSE = "diagnose"


class Status(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ERRORED = "errored"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class CompareAs(models.TextChoices):
    """What a comparison shall measure of both versions: the uploads as their own frameworks run them, what one recipe's
    steps make of them, or (`auto`) packages where the version before has one, and else the uploads."""

    AUTO = "auto"
    UPLOADED = "uploaded"
    PACKAGED = "packaged"


TERMINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.ERRORED, Status.CANCELLED, Status.TIMED_OUT})


class Run(Row):
    """Work on a version under a policy. `attempt` is the fencing counter: what an older attempt posts is refused."""

    team = models.ForeignKey(Team, models.PROTECT, related_name="runs")
    version = models.ForeignKey(ModelVersion, models.PROTECT, related_name="runs")
    workload = models.ForeignKey(
        Workload, models.PROTECT, null=True, related_name="runs", help_text="null: as inspected"
    )
    against = models.ForeignKey(
        ModelVersion,
        models.PROTECT,
        null=True,
        related_name="compared_runs",
        help_text="compare, diagnose: the version before",
    )
    recipe_version = models.ForeignKey(
        "recipes.RecipeVersion", models.PROTECT, null=True, related_name="runs", help_text="replay: what is applied"
    )
    recipe_document = models.JSONField(
        null=True,
        help_text="as it was when the run was started. replay: what is applied; compare: what packages both versions",
    )
    compare_as = models.CharField(max_length=8, choices=CompareAs.choices, blank=True, help_text="compare: as asked")
    recipe_run = models.ForeignKey(
        "self", models.SET_NULL, null=True, related_name="+", help_text="compare: the run that found the recipe"
    )
    retry_of = models.ForeignKey("self", models.SET_NULL, null=True, related_name="retries")
    purpose = models.CharField(max_length=10, choices=Purpose.choices)
    target = models.CharField(max_length=40, default="cpu")
    policy = models.JSONField(help_text="optimizer.spec.Policy, resolved once")
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")

    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    attempt = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField(default=3)
    unclaimed = models.PositiveIntegerField(
        default=0, help_text="how often in a row it was sent and no worker took it up"
    )
    send_after = models.DateTimeField(null=True, help_text="not sent again before: its last messages were in vain")
    cancel_requested_at = models.DateTimeField(null=True)
    cancelled_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    started_at = models.DateTimeField(null=True, help_text="of its first attempt")
    ended_at = models.DateTimeField(null=True)
    time_limit_s = models.FloatField(help_text="of work in one attempt; waiting does not count")
    worked_s = models.FloatField(default=0.0, help_text="over all attempts that ended")
    problem = models.JSONField(null=True, help_text="optimizer.result.Problem of a run that did not succeed")
    summary = models.CharField(max_length=500, blank=True)

    stage = models.CharField(max_length=20, blank=True, help_text="progress: the kind of the last event")
    candidate = models.CharField(max_length=300, blank=True)
    progress = models.JSONField(default=dict, help_text="message, done, total, at_s, budget_s of the last event")

    objects = Scoped.as_manager()

    class Meta:
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["status", "target", "created_at"]),
            models.Index(fields=["team", "-created_at"]),
        ]

    @property
    def compared_as(self) -> str:
        """`packaged` or `uploaded`; empty for a run that compares nothing."""
        if self.purpose != Purpose.COMPARE:
            return ""
        return str(CompareAs.PACKAGED if self.recipe_document is not None else CompareAs.UPLOADED)

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def was_cancelled_by(self) -> User | None:
        """Of a run that ended so: one that was asked to stop may have come to its own end first."""
        return self.cancelled_by if self.status == Status.CANCELLED else None


# The document and the thinned samples of a result are megabytes: what lists many runs leaves them in the database.
RESULT_BODY = ("result__document", "result__curves")


class AttemptState(models.TextChoices):
    """`sent` to the broker; `claimed` by a worker; then one of five ways to end: `ended` with an answer (or because the
    run was cancelled before), `gave_up` by its worker, `stopped` because its worker was told to end, `expired` in
    silence, `unclaimed` by any worker."""

    SENT = "sent"
    CLAIMED = "claimed"
    ENDED = "ended"
    EXPIRED = "expired"
    UNCLAIMED = "unclaimed"
    GAVE_UP = "gave_up"
    STOPPED = "stopped"


OPEN = (AttemptState.SENT, AttemptState.CLAIMED)


class Attempt(Row):
    """One try at a run. The token is good for it alone; only its hash is stored. Its clock counts work: it stands while
    the worker waits for its device, and again when the result is there and only has to be handed in."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=AttemptState.choices, default=AttemptState.SENT)
    token_sha256 = models.CharField(max_length=64, unique=True)
    worker = models.ForeignKey("fleet.Worker", models.SET_NULL, null=True, related_name="attempts")
    sent_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True)
    claim_key = models.CharField(
        max_length=64, blank=True, help_text="drawn by the worker that claimed it: its claim sent twice is one claim"
    )
    works = models.BooleanField(default=False, help_text="whether its clock runs")
    clock_at = models.DateTimeField(null=True, help_text="when its clock was last started or stopped")
    worked_s = models.FloatField(default=0.0, help_text="what its clock had counted then")
    lease_until = models.DateTimeField(help_text="renewed by each heartbeat; the reaper ends what is past it")
    ended_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500, blank=True)
    next_event = models.PositiveIntegerField(default=0, help_text="the number that its next event should have")
    event_bytes = models.BigIntegerField(default=0, help_text="of the events kept; at the limit no more are")

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["run", "number"], name="one_attempt_a_number")
        ]
        indexes: ClassVar[list[Any]] = [models.Index(fields=["state", "lease_until"])]


class Flip(Row):
    """One change of a run's status, written in its transaction."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="flips")
    attempt = models.PositiveIntegerField()
    before = models.CharField(max_length=10, choices=Status.choices)
    after = models.CharField(max_length=10, choices=Status.choices)
    reason = models.CharField(max_length=500, blank=True)


class RunEvent(models.Model):
    """One event of the coordinator, as it came. `number` counts within an attempt: a doubled post changes nothing."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="events")
    attempt = models.PositiveIntegerField()
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    at_s = models.FloatField()
    message = models.TextField()
    candidate = models.CharField(max_length=300, blank=True)
    done = models.IntegerField(null=True)
    total = models.IntegerField(null=True)
    data = models.JSONField(default=dict)
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["run", "attempt", "number"], name="one_event_a_number")
        ]


class Artifacts(Scoped):
    team_path = "run__team"


class Artifact(Row):
    """A file that a run left: report, package, recipe, raw samples, log."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="artifacts")
    attempt = models.PositiveIntegerField()
    name = models.CharField(max_length=100, help_text="report.html, package.zip, recipe.yaml, samples.json, log.txt")
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    storage_key = models.CharField(max_length=200)

    objects = Artifacts.as_manager()

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["run", "attempt", "name"], name="one_artifact_a_name")
        ]
