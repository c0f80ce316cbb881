"""What every row has: an id that can be told to strangers, and the times when it was made and last changed."""

from __future__ import annotations

import uuid
from typing import Any, Self

from django.db import models


class Row(models.Model):
    """`id` is random: it appears in addresses and must not tell how many there are."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class Scoped(models.QuerySet[Any]):
    """A query set whose rows belong to a team, at the path `team_path`. Pages and endpoints begin with `visible_to`."""

    team_path = "team"

    def visible_to(self, actor: Any) -> Self:
        """The rows of the teams in which `actor` (`accounts.permissions.Actor`) may read."""
        from fuseworks.accounts.permissions import READ, teams_where

        return self.filter(**{f"{self.team_path}__in": teams_where(actor, READ)})
