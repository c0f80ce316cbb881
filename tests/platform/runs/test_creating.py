"""Starting, cancelling and repeating runs."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.models import AuditEntry, Team
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.gates.models import GateCheck
from fuseworks.recipes.models import Recipe, RecipeVersion, Visibility
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import AttemptState, Run
from fuseworks.runs.services import run_cancel, run_create, run_retry
from optimizer.spec import Policy
from tests.platform import factories
from tests.platform.runs.steps import claimed, opened, worker_row

pytestmark = pytest.mark.django_db


def recipe_version(team: Team, state: str = "draft", visibility: str = Visibility.TEAM) -> RecipeVersion:
    recipe = Recipe.objects.create(team=team, name="merge", visibility=visibility)
    return RecipeVersion.objects.create(
        recipe=recipe,
        version="1.0.0",
        state=state,
        document={"kind": "Recipe"},
        digest="0" * 64,
        title="Merge",
        target_kind="cpu",
        mode="inference",
        backend="openvino",
    )


def refused(**asked: Any) -> PlatformError:
    with pytest.raises(PlatformError) as caught:
        run_create(**asked)
    assert not Run.objects.exists()
    return caught.value


def test_a_run_is_queued_with_its_policy_resolved_and_the_current_workload(actor: Actor, version: ModelVersion) -> None:
    factories.make_workload(version)
    newest = factories.make_workload(version)
    run = run_create(actor=actor, version=version, purpose="optimize", policy={"budget_s": 100})
    assert (run.status, run.team, run.workload, run.created_by) == ("queued", version.model.team, newest, actor.user)
    assert run.policy == Policy(budget_s=100).model_dump(mode="json")
    assert run.time_limit_s == 2 * 100 + 900
    entry = AuditEntry.objects.get(action="run.create")
    assert (entry.object_id, entry.team) == (run.pk, run.team)


def test_the_time_limit_is_never_above_the_sites(settings: Any, actor: Actor, version: ModelVersion) -> None:
    settings.RUN_TIME_LIMIT_S = 1000
    assert run_create(actor=actor, version=version, purpose="inspect").time_limit_s == 1000


@pytest.mark.parametrize(("asked_s", "given_s"), [(None, 120.0), (600, 120.0), (30, 30.0)])
def test_an_inspection_has_a_budget_of_its_own(
    settings: Any, actor: Actor, version: ModelVersion, asked_s: float | None, given_s: float
) -> None:
    settings.INSPECT_BUDGET_S = 120
    policy = None if asked_s is None else {"budget_s": asked_s}
    run = run_create(actor=actor, version=version, purpose="inspect", policy=policy)
    assert (run.policy["budget_s"], run.time_limit_s) == (given_s, 2 * given_s + 900)


@pytest.mark.parametrize(
    ("policy", "place"),
    [
        ({"budget_s": -1}, "policy.budget_s"),
        ({"budget_s": 7201}, "policy.budget_s"),
        ({"budget_s": float("inf")}, "policy.budget_s"),
        ({"precisions": ["float32", "int4"]}, "policy.precisions.1"),
        ({"budget": 60}, "policy.budget"),
        ([1], "policy"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_the_fields_name(
    actor: Actor, version: ModelVersion, policy: Any, place: str
) -> None:
    error = refused(actor=actor, version=version, purpose="optimize", policy=policy)
    assert (error.id, error.place, list(error.extra["fields"])) == ("runs:usage:field", place, [place])


def test_a_nul_in_a_policy_does_no_harm(actor: Actor, version: ModelVersion) -> None:
    run = run_create(actor=actor, version=version, purpose="optimize", policy={"backends": ["open\x00vino"]})
    assert run.policy["backends"] == ["openvino"]


def test_a_backend_that_no_worker_of_the_target_knows_is_refused_where_any_told_its_own(
    actor: Actor, version: ModelVersion
) -> None:
    asked: dict[str, Any] = {"actor": actor, "version": version, "purpose": "optimize"}
    worker_row("gpu", target="cuda:sm_90", manifest={"backends": [{"name": "nope"}]})
    assert run_create(**asked, policy={"backends": ["nope"]}).status == "queued"
    worker_row("cpu", manifest={"backends": [{"name": "openvino", "unavailable": "not installed"}, {"name": "eager"}]})
    with pytest.raises(PlatformError) as caught:
        run_create(**asked, policy={"backends": ["eager", "openvin"]})
    assert (caught.value.id, caught.value.place) == ("runs:usage:field", "policy.backends")
    assert "no worker of cpu knows a backend called openvin; there are: openvino" in caught.value.message
    assert run_create(**asked, policy={"backends": ["openvino"]}).status == "queued"


def test_a_version_may_be_compared_with_itself(actor: Actor, version: ModelVersion) -> None:
    """What a pipeline asks whose model did not change."""
    assert run_create(actor=actor, version=version, purpose="compare", against=version).against == version


@pytest.mark.parametrize("target", ["gpu", "cpu ", "cuda:sm_9x0", "", "cpu\n"])
def test_a_target_that_is_none_is_refused(actor: Actor, version: ModelVersion, target: str) -> None:
    assert refused(actor=actor, version=version, purpose="optimize", target=target).place == "target"


def test_what_belongs_to_another_purpose_is_refused(team: Team, actor: Actor, version: ModelVersion) -> None:
    asked: dict[str, Any] = {"actor": actor, "version": version}
    assert refused(**asked, purpose="guess").place == "purpose"
    assert refused(**asked, purpose="compare").place == "against"
    assert refused(**asked, purpose="optimize", against=version).place == "against"
    assert refused(**asked, purpose="replay").place == "recipe_version"
    assert refused(**asked, purpose="optimize", recipe_version=recipe_version(team)).place == "recipe_version"
    assert refused(**asked, purpose="optimize", max_latency_ratio=1.05).place == "max_latency_ratio"
    workload = factories.make_workload(version)
    assert refused(**asked, purpose="inspect", workload=workload).place == "workload"


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf")])
def test_a_gates_limit_is_a_positive_number(actor: Actor, version: ModelVersion, ratio: float) -> None:
    before = factories.make_version(version.model)
    error = refused(actor=actor, version=version, purpose="compare", against=before, max_latency_ratio=ratio)
    assert error.place == "max_latency_ratio"


def test_a_workload_of_another_version_is_refused(actor: Actor, version: ModelVersion) -> None:
    other = factories.make_workload(factories.make_version(version.model))
    assert refused(actor=actor, version=version, purpose="optimize", workload=other).place == "workload"


def test_a_deleted_version_is_refused_on_either_side(actor: Actor, version: ModelVersion) -> None:
    gone = factories.make_version(version.model, deleted_at=version.created_at)
    assert refused(actor=actor, version=gone, purpose="optimize").id == "runs:usage:version-deleted"
    error = refused(actor=actor, version=version, purpose="compare", against=gone)
    assert (error.id, error.context["version"]) == ("runs:usage:version-deleted", "DIN v2")


def test_a_viewer_may_not_run_and_a_stranger_sees_no_team(team: Team, version: ModelVersion) -> None:
    viewer = Actor(factories.make_member(team, "viewer"))
    error = refused(actor=viewer, version=version, purpose="optimize")
    assert (error.id, error.context["role"], error.context["needed"]) == ("core:usage:forbidden", "viewer", "member")
    stranger = Actor(factories.make_user())
    assert refused(actor=stranger, version=version, purpose="optimize").id == "core:usage:not-found"


def test_a_comparison_with_another_teams_version_is_not_found_or_refused(actor: Actor, version: ModelVersion) -> None:
    other = factories.make_team()
    theirs = factories.make_version(factories.make_model(other))
    assert refused(actor=actor, version=version, purpose="compare", against=theirs).id == "core:usage:not-found"
    factories.make_member(other, "viewer", actor.user)
    error = refused(actor=actor, version=version, purpose="compare", against=theirs)
    assert error.id == "runs:usage:other-teams-version"


def test_a_comparison_with_a_limit_is_a_gate_that_waits(actor: Actor, version: ModelVersion) -> None:
    before = factories.make_version(version.model)
    run = run_create(actor=actor, version=version, purpose="compare", against=before, max_latency_ratio=1.05)
    assert run.against == before
    check = GateCheck.objects.get(run=run)
    assert (check.max_latency_ratio, check.outcome) == (1.05, "pending")


def test_a_replay_takes_a_recipe_that_the_actor_may_find(actor: Actor, version: ModelVersion) -> None:
    other = factories.make_team()
    draft = recipe_version(other)
    error = refused(actor=actor, version=version, purpose="replay", recipe_version=draft)
    assert error.id == "core:usage:not-found"
    RecipeVersion.objects.update(state="published")
    Recipe.objects.update(visibility=Visibility.COMPANY)
    assert run_create(actor=actor, version=version, purpose="replay", recipe_version=draft).recipe_version == draft


def test_a_queued_run_is_cancelled_at_once_with_the_message_that_is_on_its_way(
    actor: Actor, version: ModelVersion
) -> None:
    run = run_create(actor=actor, version=version, purpose="optimize")
    attempt = opened(run).attempt
    cancelled = run_cancel(actor=actor, run=run)
    assert (cancelled.status, cancelled.cancelled_by, cancelled.summary) == ("cancelled", actor.user, "")
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.ENDED
    assert AuditEntry.objects.filter(action="run.cancel", object_id=run.pk).count() == 1


def test_a_running_run_is_asked_to_stop_once(actor: Actor, version: ModelVersion) -> None:
    run = run_create(actor=actor, version=version, purpose="optimize")
    claimed(run)
    first = run_cancel(actor=actor, run=run)
    assert (first.status, first.cancelled_by, first.was_cancelled_by) == ("running", actor.user, None)
    assert first.cancel_requested_at is not None
    again = run_cancel(actor=Actor(factories.make_member(run.team)), run=run)
    assert (again.cancel_requested_at, again.cancelled_by) == (first.cancel_requested_at, actor.user)
    assert AuditEntry.objects.filter(action="run.cancel").count() == 1


def test_what_is_over_cannot_be_cancelled_and_what_is_not_cannot_be_repeated(
    actor: Actor, version: ModelVersion
) -> None:
    over = factories.make_run(version, status="failed")
    with pytest.raises(PlatformError) as caught:
        run_cancel(actor=actor, run=over)
    assert (caught.value.id, caught.value.status) == ("runs:usage:over", 409)
    with pytest.raises(PlatformError) as caught:
        run_retry(actor=actor, run=factories.make_run(version))
    assert (caught.value.id, caught.value.status) == ("runs:usage:not-over", 409)


def test_a_repeated_run_asks_the_same_with_the_same_limit(actor: Actor, version: ModelVersion) -> None:
    before = factories.make_version(version.model)
    run = run_create(
        actor=actor,
        version=version,
        purpose="compare",
        against=before,
        policy={"budget_s": 60, "seed": 5},
        max_latency_ratio=1.1,
    )
    run_cancel(actor=actor, run=run)
    again = run_retry(actor=actor, run=Run.objects.get(pk=run.pk))
    assert again.pk != run.pk
    assert (again.retry_of_id, again.status, again.attempt) == (run.pk, "queued", 0)
    assert (again.purpose, again.against, again.policy) == ("compare", before, run.policy)
    assert again.gate_check.max_latency_ratio == 1.1


def test_a_repeated_replay_takes_the_steps_as_they_were(actor: Actor, team: Team, version: ModelVersion) -> None:
    run = run_create(actor=actor, version=version, purpose="replay", recipe_version=recipe_version(team))
    run_cancel(actor=actor, run=run)
    RecipeVersion.objects.update(document={"kind": "Recipe", "edited": "since"})
    again = run_retry(actor=actor, run=Run.objects.get(pk=run.pk))
    assert again.recipe_document == run.recipe_document == {"kind": "Recipe"}


def test_only_who_may_run_may_cancel_and_repeat(team: Team, version: ModelVersion) -> None:
    viewer = Actor(factories.make_member(team, "viewer"))
    with pytest.raises(PlatformError) as caught:
        run_cancel(actor=viewer, run=factories.make_run(version))
    assert caught.value.id == "core:usage:forbidden"
    with pytest.raises(PlatformError) as caught:
        run_retry(actor=viewer, run=factories.make_run(version, status="failed"))
    assert caught.value.id == "core:usage:forbidden"
