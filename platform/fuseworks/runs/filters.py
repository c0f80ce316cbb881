"""How lists of runs are narrowed down, on the page and in the API alike."""

from __future__ import annotations

from typing import Any, ClassVar

import django_filters
from django.utils.translation import gettext_lazy as _

from fuseworks.runs.models import Purpose, Run, Status
from optimizer.result import Verdict

VERDICTS = [(verdict.value, verdict.value.replace("_", " ")) for verdict in Verdict]


class RunFilter(django_filters.FilterSet):
    """`?status=queued&status=running&team=ads-ranking&verdict=faster`"""

    status = django_filters.MultipleChoiceFilter(choices=Status.choices, label=_("Status"))
    purpose = django_filters.MultipleChoiceFilter(choices=Purpose.choices, label=_("Purpose"))
    team = django_filters.CharFilter(field_name="team__slug", label=_("Team"))
    model = django_filters.UUIDFilter(field_name="version__model", label=_("Model"))
    version = django_filters.UUIDFilter(field_name="version", label=_("Version"))
    target = django_filters.CharFilter(field_name="target", label=_("Target"))
    verdict = django_filters.MultipleChoiceFilter(field_name="result__verdict", choices=VERDICTS, label=_("Verdict"))

    class Meta:
        model = Run
        fields: ClassVar[list[Any]] = []
