"""What teams use of their quotas: bytes by what they are of, and the work that waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum

from fuseworks.accounts.models import Team
from fuseworks.registry.models import ModelVersion, Upload
from fuseworks.runs.models import Artifact, Run, Status


@dataclass(frozen=True)
class Usage:
    """`versions_*`: files of versions that were not deleted; `left_*`: files that runs left; `announced_*`: uploads on
    their way, at the length that they announced. All three count against the quota."""

    quota_bytes: int
    quota_is_default: bool
    versions: int
    versions_bytes: int
    left: int
    left_bytes: int
    announced: int
    announced_bytes: int
    runs_queued: int
    runs_running: int

    @property
    def stored_bytes(self) -> int:
        return self.versions_bytes + self.left_bytes + self.announced_bytes

    @property
    def share(self) -> float | None:
        """Of the quota; None where it is 0."""
        return self.stored_bytes / self.quota_bytes if self.quota_bytes else None

    @property
    def is_over(self) -> bool:
        """Nothing more can be uploaded."""
        return self.stored_bytes >= self.quota_bytes


def usage(*, team: Team) -> Usage:
    return usages(teams=[team])[team.pk]


def usages(*, teams: Iterable[Team]) -> dict[Any, Usage]:
    """By the teams' keys, in four queries however many teams there are."""
    teams = list(teams)
    keys = [team.pk for team in teams]
    versions = _sums(ModelVersion.objects.filter(deleted_at=None), "model__team", "size_bytes", keys)
    left = _sums(Artifact.objects.all(), "run__team", "size_bytes", keys)
    announced = _sums(Upload.objects.filter(version=None), "team", "length_bytes", keys)
    counted = Run.objects.filter(team__in=keys).order_by().values("team")
    runs = {
        row["team"]: (row["queued"], row["running"])
        for row in counted.annotate(
            queued=Count("pk", filter=Q(status=Status.QUEUED)), running=Count("pk", filter=Q(status=Status.RUNNING))
        )
    }
    none = (0, 0)
    return {
        team.pk: Usage(
            team.quota_bytes if team.quota_bytes is not None else int(settings.TEAM_QUOTA_BYTES),
            team.quota_bytes is None,
            *versions.get(team.pk, none),
            *left.get(team.pk, none),
            *announced.get(team.pk, none),
            *runs.get(team.pk, none),
        )
        for team in teams
    }


def _sums(rows: QuerySet[Any], team_path: str, field: str, keys: list[Any]) -> dict[Any, tuple[int, int]]:
    """How many rows and bytes each team has."""
    of_these = rows.filter(**{f"{team_path}__in": keys}).order_by().values(team_path)
    return {
        row[team_path]: (row["rows"], int(row["total"]))
        for row in of_these.annotate(rows=Count("pk"), total=Sum(field))
    }
