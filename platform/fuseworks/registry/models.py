"""Models and jobs of a team, their immutable versions, the workloads of a version, and uploads on their way in."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from fuseworks.accounts.models import Team, User
from fuseworks.core.models import Row, Scoped


class Family(models.TextChoices):
    """What kind of model it is: all that other business units are told of it."""

    RANKING = "ranking"
    RETRIEVAL = "retrieval"
    SEARCH = "search"
    ADVERTISING = "advertising"
    VISION = "vision"
    SPEECH = "speech"
    LANGUAGE = "language"
    OTHER = "other"


class Kind(models.TextChoices):
    """A model's versions are uploads that can be run; a job ran elsewhere, and its versions are traces of it."""

    MODEL = "model"
    JOB = "job"


class Model(Row):
    """A named model of a team, or a job of it."""

    kind = models.CharField(max_length=5, choices=Kind.choices, default=Kind.MODEL)
    team = models.ForeignKey(Team, models.PROTECT, related_name="models")
    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=80)
    description = models.TextField(blank=True, max_length=4000)
    family = models.CharField(max_length=12, choices=Family.choices, default=Family.OTHER)

    objects = Scoped.as_manager()

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["team", "kind", "slug"], name="one_model_a_slug")
        ]

    def __str__(self) -> str:
        return self.name


class Format(models.TextChoices):
    """`trace`: of torch.profiler, one rank or a zip of many; the only one that a job has, and no model does."""

    PT2 = "pt2"
    PY = "py"
    ZIP = "zip"
    ONNX = "onnx"
    TRACE = "trace"


class Versions(Scoped):
    team_path = "model__team"


class ModelVersion(Row):
    """One upload of a model; never changed. Deleting it drops the file and keeps the row, so that what refers to it
    stays readable."""

    model = models.ForeignKey(Model, models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    filename = models.CharField(max_length=200, help_text="as its uploader called it; for display only")
    format = models.CharField(max_length=8, choices=Format.choices)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    storage_key = models.CharField(max_length=200, help_text="in the site's storage; empty once deleted", blank=True)
    uploaded_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    inspection = models.JSONField(null=True, help_text="optimizer.result.Inspection, from the inspect run")
    deleted_at = models.DateTimeField(null=True)
    deleted_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")

    objects = Versions.as_manager()

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["model", "number"], name="one_version_a_number")
        ]

    def __str__(self) -> str:
        return f"{self.model} v{self.number}"


class WorkloadSource(models.TextChoices):
    INSPECTED = "inspected"
    EDITED = "edited"


class Workloads(Scoped):
    team_path = "version__model__team"


class Workload(Row):
    """How a version is called: one immutable revision of it. The highest number is the current one."""

    version = models.ForeignKey(ModelVersion, models.CASCADE, related_name="workloads")
    number = models.PositiveIntegerField()
    document = models.JSONField(help_text="optimizer.spec.Workload")
    source = models.CharField(max_length=10, choices=WorkloadSource.choices)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")

    objects = Workloads.as_manager()

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["version", "number"], name="one_workload_a_number")
        ]


class Upload(Row):
    """A file on its way in, resumable. Until it is complete its bytes lie in the site's incoming folder."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="uploads")
    kind = models.CharField(max_length=5, choices=Kind.choices, default=Kind.MODEL)
    model = models.ForeignKey(Model, models.CASCADE, null=True, related_name="uploads", help_text="null: a new model")
    model_name = models.CharField(max_length=80)
    filename = models.CharField(max_length=200)
    length_bytes = models.BigIntegerField()
    expected_sha256 = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    expires_at = models.DateTimeField()
    version = models.OneToOneField(ModelVersion, models.SET_NULL, null=True, related_name="upload")

    objects = Scoped.as_manager()
