"""A field that an endpoint does not know is refused, with its name and those that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rest_framework import serializers

from fuseworks.core.bodies import Body
from fuseworks.core.discovery import endpoints
from fuseworks.runs.models import Run
from tests.platform import factories

READS_A_BODY = re.compile(r"(\w+)\(data=request\.data\)")


class Asked(Body):
    version = serializers.CharField()
    budget_s = serializers.FloatField(required=False)


def test_every_unknown_field_is_named() -> None:
    asked = Asked(data={"version": "1", "budget": 3, "bugdet_s": 4})
    assert not asked.is_valid()
    told = "no such field; there are: version, budget_s"
    assert asked.errors == {"budget": [told], "bugdet_s": [told]}


def test_known_fields_and_what_is_no_object_are_as_ever() -> None:
    asked = Asked(data={"version": "1", "budget_s": 3})
    assert asked.is_valid() and asked.validated_data == {"version": "1", "budget_s": 3.0}
    assert list(_errors([1])) == ["non_field_errors"]


def _errors(data: Any) -> Any:
    asked = Asked(data=data)
    assert not asked.is_valid()
    return asked.errors


@pytest.mark.django_db
def test_a_budget_beside_the_policy_starts_no_run() -> None:
    version = factories.make_version(factories.make_model(factories.make_team()))
    api = factories.api_for(factories.make_member(version.model.team))
    answer = api.post("/api/v1/runs/", {"version": str(version.pk), "budget_s": 60})
    assert (answer.status_code, answer.json()["id"]) == (400, "core:usage:invalid")
    assert list(answer.json()["fields"]) == ["budget_s"]
    assert "budget_s: no such field" in answer.json()["detail"]
    assert not Run.objects.exists()


def test_every_endpoint_that_reads_a_body_for_people_refuses_what_it_does_not_know() -> None:
    found = set()
    for endpoint in endpoints():
        module = __import__(endpoint.view.__module__, fromlist=["_"])
        for name in READS_A_BODY.findall(Path(str(module.__file__)).read_text()):
            assert issubclass(getattr(module, name), Body), f"{module.__name__}.{name}"
            found.add(name)
    assert {"NewRunSerializer", "NewUploadSerializer", "NewTokenSerializer", "PublishSerializer"} <= found
