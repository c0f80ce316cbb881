"""Which steps package a version: those of its own team's latest run that left a package for the same workload."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from fuseworks.accounts.models import Team
from fuseworks.registry.models import ModelVersion
from fuseworks.results.deployed import deployed_by
from fuseworks.runs.models import Run
from tests.platform.factories import make_model, make_team, make_version, make_workload, workload_document
from tests.platform.results.support import packaging_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return make_team("ads-ranking")


@pytest.fixture
def version(team: Team) -> ModelVersion:
    return make_version(make_model(team, "DIN"))


def found(version: ModelVersion, workload: Any = None, target: str = "cpu") -> Run | None:
    return deployed_by(version=version, workload=workload, target=target)


def test_the_latest_run_that_left_a_package_is_taken(version: ModelVersion) -> None:
    now = timezone.now()
    packaging_run(version, ended_at=now - timedelta(days=2))
    latest = packaging_run(version, ended_at=now - timedelta(hours=1), purpose="replay")
    packaging_run(version, ended_at=now - timedelta(days=1))
    assert found(version) == latest


def test_what_left_no_package_does_not_count(version: ModelVersion) -> None:
    packaging_run(version, artifacts=[])
    packaging_run(version, artifacts=["recipe", "manifest"])
    assert found(version) is None


@pytest.mark.parametrize("status", ["failed", "errored", "cancelled", "timed_out", "running"])
def test_a_run_that_did_not_succeed_does_not_count(version: ModelVersion, status: str) -> None:
    packaging_run(version, status=status)
    assert found(version) is None


def test_a_comparison_does_not_count_though_its_result_has_a_recipe(version: ModelVersion) -> None:
    packaging_run(version, purpose="compare", against=version)
    assert found(version) is None


def test_another_target_another_version_and_another_team_do_not_count(version: ModelVersion, team: Team) -> None:
    packaging_run(version, target="cuda:sm_90")
    packaging_run(make_version(version.model))
    packaging_run(version, team=make_team())
    assert found(version) is None
    assert found(version, target="cuda:sm_90") is not None


def test_a_workload_is_the_same_by_its_name_and_mode_whatever_its_revision(version: ModelVersion) -> None:
    serving = packaging_run(version)
    newer = make_version(version.model)
    same = make_workload(newer, {**workload_document(), "name": "serving"})
    assert found(version, same) == serving
    assert found(version, make_workload(newer, {**workload_document(), "name": "offline"})) is None
    assert found(version, make_workload(newer, {**workload_document(), "mode": "training"})) is None


def test_without_a_workload_it_is_the_current_one_of_the_version(version: ModelVersion) -> None:
    serving = packaging_run(version)
    assert found(version) == serving, "of an upload that was not inspected yet any will do"
    make_workload(version, {**workload_document(), "name": "offline"})
    assert found(version) is None
    offline = packaging_run(version, workload_name="offline")
    assert found(version) == offline


def test_the_package_need_not_be_kept(version: ModelVersion) -> None:
    run = packaging_run(version)
    assert not run.artifacts.exists()
    assert found(version) == run
