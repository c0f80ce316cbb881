"""What a comparison measures is settled when it is started: packages, or the uploads as they are."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.registry.models import ModelVersion
from fuseworks.results.models import RunResult
from fuseworks.runs.models import Run
from fuseworks.runs.services import run_cancel, run_create, run_retry
from tests.platform import factories
from tests.platform.results.support import RECIPE, packaging_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def before(team: Team) -> ModelVersion:
    return factories.make_version(factories.make_model(team, "DIN"), b"before")


@pytest.fixture
def version(before: ModelVersion) -> ModelVersion:
    return factories.make_version(before.model, b"after")


def started(actor: Actor, version: ModelVersion, before: ModelVersion, compare_as: str | None = None) -> Run:
    return run_create(actor=actor, version=version, purpose="compare", against=before, compare_as=compare_as)


@pytest.mark.parametrize("asked", [None, "auto", "packaged"])
def test_both_are_packaged_by_the_recipe_of_the_version_before(
    actor: Actor, version: ModelVersion, before: ModelVersion, asked: str | None
) -> None:
    source = packaging_run(before)
    packaging_run(version)  # the new version's own steps are not how the team deploys
    run = started(actor, version, before, asked)
    assert (run.compare_as, run.compared_as) == (asked or "auto", "packaged")
    assert (run.recipe_run, run.recipe_document, run.recipe_version) == (source, RECIPE, None)


def test_without_a_package_it_falls_back_to_the_uploads_and_says_so(
    actor: Actor, version: ModelVersion, before: ModelVersion
) -> None:
    packaging_run(version)
    run = started(actor, version, before)
    assert (run.compare_as, run.compared_as, run.recipe_run, run.recipe_document) == ("auto", "uploaded", None, None)


def test_packages_that_are_not_there_are_refused_and_never_replaced_by_the_uploads(
    actor: Actor, version: ModelVersion, before: ModelVersion
) -> None:
    with pytest.raises(PlatformError) as caught:
        started(actor, version, before, "packaged")
    assert (caught.value.id, caught.value.place) == ("runs:usage:field", "compare_as")
    assert "no run of DIN v1 left a package for this workload and target" in caught.value.message
    assert not Run.objects.exists()


def test_uploads_are_compared_where_that_is_asked_for(
    actor: Actor, version: ModelVersion, before: ModelVersion
) -> None:
    packaging_run(before)
    run = started(actor, version, before, "uploaded")
    assert (run.compare_as, run.compared_as, run.recipe_document) == ("uploaded", "uploaded", None)


def test_it_is_the_workload_of_the_run_that_counts(actor: Actor, version: ModelVersion, before: ModelVersion) -> None:
    packaging_run(before)
    factories.make_workload(version, {**factories.workload_document(), "name": "offline"})
    assert started(actor, version, before).compared_as == "uploaded"
    offline = packaging_run(before, workload_name="offline")
    assert started(actor, version, before).recipe_run == offline


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"purpose": "optimize", "compare_as": "auto"}, "only for the purpose compare"),
        ({"purpose": "compare", "compare_as": "deployed"}, "one of auto, uploaded, packaged"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    actor: Actor, version: ModelVersion, before: ModelVersion, asked: dict[str, Any], text: str
) -> None:
    against = before if asked["purpose"] == "compare" else None
    with pytest.raises(PlatformError) as caught:
        run_create(actor=actor, version=version, against=against, **asked)
    assert (caught.value.place, caught.value.context["text"]) == ("compare_as", text)


def test_what_was_chosen_stays_when_the_version_gets_another_package_or_its_result_goes(
    actor: Actor, version: ModelVersion, before: ModelVersion
) -> None:
    source = packaging_run(before)
    run = started(actor, version, before)
    RunResult.objects.filter(run=source).delete()
    packaging_run(before)
    run.refresh_from_db()
    assert (run.recipe_run, run.recipe_document) == (source, RECIPE)


def test_a_repeated_comparison_is_asked_as_the_first_one_was(
    actor: Actor, version: ModelVersion, before: ModelVersion
) -> None:
    packaging_run(before)
    run = started(actor, version, before, "uploaded")
    run_cancel(actor=actor, run=run)
    assert run_retry(actor=actor, run=Run.objects.get(pk=run.pk)).compare_as == "uploaded"


def test_over_the_api_a_gate_says_what_it_measures(team: Team, version: ModelVersion, before: ModelVersion) -> None:
    api = factories.api_for(factories.make_token(factories.make_member(team), scopes=("read", "submit")))
    asked = {"version": str(version.pk), "purpose": "compare", "against": str(before.pk), "max_latency_ratio": 1.05}
    refused = api.post("/api/v1/runs/", {**asked, "compare_as": "packaged"}, format="json")
    assert (refused.status_code, refused.json()["place"]) == (400, "compare_as")
    body = api.post("/api/v1/runs/", asked, format="json").json()
    assert (body["compare_as"], body["compared_as"], body["recipe_run"]) == ("auto", "uploaded", None)
    source = packaging_run(before)
    body = api.post("/api/v1/runs/", {**asked, "compare_as": None}, format="json").json()
    assert (body["compare_as"], body["compared_as"], body["recipe_run"]) == ("auto", "packaged", str(source.pk))
    gate = api.get(f"/api/v1/gates/{body['id']}/").json()
    assert (gate["compare_as"], gate["compared_as"], gate["recipe_run"]) == ("auto", "packaged", str(source.pk))


def test_the_run_page_says_it_and_leads_to_the_run_that_found_the_steps(
    actor: Actor, version: ModelVersion, before: ModelVersion
) -> None:
    browser = factories.client_for(actor.user)
    page = browser.get(f"/runs/{started(actor, version, before).pk}/").content.decode()
    assert "as uploaded, since no run of the version before left a package" in " ".join(page.split())
    source = packaging_run(before)
    page = browser.get(f"/runs/{started(actor, version, before).pk}/").content.decode()
    assert f'as packaged, <a href="/runs/{source.pk}/">by the steps of this run' in " ".join(page.split())


def test_the_form_of_a_version_asks_for_it(actor: Actor, version: ModelVersion, before: ModelVersion) -> None:
    browser, address = factories.client_for(actor.user), f"/versions/{version.pk}/compare/"
    form = {"against": str(before.pk), "budget_s": "300"}
    refused = browser.post(address, {**form, "compare_as": "packaged"})
    assert refused.status_code == 422 and "left a package" in refused.content.decode()
    packaging_run(before)
    assert browser.post(address, {**form, "compare_as": "packaged"}).status_code == 302
    assert browser.post(address, {**form, "compare_as": "uploaded"}).status_code == 302
    kinds = Run.objects.filter(purpose="compare").order_by("created_at").values_list("compare_as", flat=True)
    assert list(kinds) == ["packaged", "uploaded"]
