"""Which versions the page that applies a recipe offers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from fuseworks.registry.models import ModelVersion
from fuseworks.registry.selectors import runnable
from fuseworks.runs.models import Run
from tests.platform.factories import (
    client_for,
    make_model,
    make_run,
    make_team,
    make_version,
    make_workload,
)
from tests.platform.recipes.test_knowing import draft, owner

__all__ = ["owner"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def version() -> ModelVersion:
    return make_version(make_model(make_team(), "DIN"))


def inspected(version: ModelVersion, status: str, hours_ago: int = 0) -> None:
    run = make_run(version, purpose="inspect", status=status)
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(hours=hours_ago))


@pytest.mark.parametrize(("status", "is_offered"), [("succeeded", True), ("errored", True), ("failed", False)])
def test_one_whose_inspection_failed_is_left_out(version: ModelVersion, status: str, is_offered: bool) -> None:
    inspected(version, status)
    assert runnable(ModelVersion.objects.all()).exists() is is_offered


def test_the_last_inspection_counts_and_a_workload_makes_up_for_it(version: ModelVersion) -> None:
    inspected(version, "succeeded", hours_ago=2)
    inspected(version, "failed", hours_ago=1)
    assert not runnable(ModelVersion.objects.all()).exists()
    make_workload(version)
    assert runnable(ModelVersion.objects.all()).get() == version


def test_one_that_was_never_inspected_is_offered(version: ModelVersion) -> None:
    assert runnable(ModelVersion.objects.all()).get() == version


def test_the_page_offers_the_newest_that_can_be_run(owner) -> None:
    recipe = draft(owner)
    model = make_model(recipe.recipe.team, "DIN")
    make_version(model, b"first")
    inspected(make_version(model, b"second"), "failed")
    text = client_for(owner.user).get(f"/recipe-versions/{recipe.pk}/apply/").content.decode()
    assert "DIN v1" in text and "DIN v2" not in text
