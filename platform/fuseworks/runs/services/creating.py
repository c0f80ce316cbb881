"""What people do with runs: start one, cancel it, run it once more."""

from __future__ import annotations

import math
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from pydantic import ValidationError

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import RUN, Actor, audit, require
from fuseworks.core.errors import PlatformError
from fuseworks.fleet.known import known, nearest
from fuseworks.fleet.serving import PREDICTS
from fuseworks.registry.models import Format, ModelVersion, Workload
from fuseworks.runs import bell, scrub
from fuseworks.runs.errors import wrong_field
from fuseworks.runs.models import Purpose, Run, Status
from fuseworks.runs.services import ending
from fuseworks.runs.services.comparing import compare_as_asked, packaging_run
from fuseworks.runs.services.uninspected import check_inspected
from optimizer.spec import Policy
from workers.messages import TARGET

# Beside its budget a run captures, computes a reference and writes its report; twice that, and a quarter of an hour.
TIME_FACTOR = 2
TIME_BESIDE_S = 900


def run_create(
    *,
    actor: Actor,
    version: ModelVersion,
    purpose: str,
    target: str = "cpu",
    policy: Policy | dict[str, Any] | None = None,
    workload: Workload | None = None,
    against: ModelVersion | None = None,
    recipe_version: Any = None,
    max_latency_ratio: float | None = None,
    compare_as: str | None = None,
    retry_of: Run | None = None,
) -> Run:
    """Puts a run into the queue. Without a `workload` it takes the version's current one, or what the upload says.

    Raises PlatformError: `runs:usage:field` (its `place` names the field), `runs:usage:version-deleted`,
    `runs:user:inspection-failed`, what `permissions.require` raises, and 404 for a version or recipe that the actor may
    not see.
    """
    team = version.model.team
    require(actor, team, RUN)
    purpose = _purpose(purpose)
    _check_format(version, purpose)
    _check_target(target, purpose)
    _check_kept(version)
    checked = _policy(policy, purpose)
    _check_backends(checked, PREDICTS if purpose == Purpose.EXPLAIN else target)
    _check_against(actor, version, purpose, against)
    _check_recipe(actor, team, purpose, recipe_version)
    _check_gate(purpose, max_latency_ratio)
    asked = compare_as_asked(purpose, compare_as)
    chosen = _workload(purpose, version, workload)
    check_inspected(purpose=purpose, version=version, workload=chosen)
    if retry_of is not None:  # the steps as they were: a draft may have been edited since, and a newer run packaged
        recipe_run, document = retry_of.recipe_run, retry_of.recipe_document
    else:
        recipe_run = packaging_run(asked, against, chosen, target)
        document = _document(recipe_version, recipe_run)
    with transaction.atomic():
        run: Run = Run.objects.create(
            team=team,
            version=version,
            workload=chosen,
            against=against,
            recipe_version=recipe_version,
            recipe_document=document,
            compare_as=asked,
            recipe_run=recipe_run,
            retry_of=retry_of,
            purpose=purpose,
            target=target,
            policy=checked.model_dump(mode="json"),
            created_by=actor.user,
            max_attempts=settings.MAX_ATTEMPTS,
            time_limit_s=min(settings.RUN_TIME_LIMIT_S, TIME_FACTOR * checked.budget_s + TIME_BESIDE_S),
        )
        if max_latency_ratio is not None:
            from fuseworks.gates.models import GateCheck  # gates build on runs

            GateCheck.objects.create(run=run, max_latency_ratio=max_latency_ratio)
        audit(actor, "run.retry" if retry_of else "run.create", team=team, target=run, purpose=purpose)
        bell.ring()
    return run


def run_cancel(*, actor: Actor, run: Run) -> Run:
    """Ends a queued run at once; asks the worker of a running one, which has until the reaper's grace to obey.

    Asking twice is no error. Raises PlatformError: `runs:usage:over`, and what `permissions.require` raises.
    """
    require(actor, run.team, RUN)
    now = timezone.now()
    with transaction.atomic():
        run = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        if run.is_terminal:
            raise PlatformError("runs:usage:over", status=run.get_status_display().lower())
        if run.cancel_requested_at is None:
            Run.objects.filter(pk=run.pk).update(cancel_requested_at=now, cancelled_by=actor.user, updated_at=now)
            run.refresh_from_db()
            audit(actor, "run.cancel", team=run.team, target=run)
        if run.status == Status.QUEUED:
            void = "the run was cancelled"
            ending.end_queued(run, Status.CANCELLED, now=now, void=void, reason="cancelled while it waited")
        bell.ring()
    return run


def run_retry(*, actor: Actor, run: Run) -> Run:
    """A new run that asks the same as one that is over, with the same limit of a gate.

    Raises PlatformError: `runs:usage:not-over`, and what `run_create` raises.
    """
    require(actor, run.team, RUN)
    if not run.is_terminal:
        raise PlatformError("runs:usage:not-over", status=run.get_status_display().lower())
    check = getattr(run, "gate_check", None)
    return run_create(
        actor=actor,
        version=run.version,
        purpose=run.purpose,
        target=run.target,
        policy=run.policy,
        workload=run.workload,
        against=run.against,
        recipe_version=run.recipe_version,
        max_latency_ratio=check.max_latency_ratio if check is not None else None,
        compare_as=run.compare_as or None,
        retry_of=run,
    )


def _document(recipe_version: Any, recipe_run: Run | None) -> dict[str, Any] | None:
    """What is replayed, or what both sides of a comparison are built by."""
    if recipe_run is not None:
        found: dict[str, Any] = recipe_run.result.document["recipe"]
        return found
    return recipe_version.document if recipe_version is not None else None


def _purpose(purpose: str) -> str:
    if purpose not in Purpose.values:
        raise wrong_field("purpose", format_lazy(_("one of {choices}"), choices=", ".join(Purpose.values)))
    return str(Purpose(purpose))


def _check_format(version: ModelVersion, purpose: str) -> None:
    is_trace = version.format == Format.TRACE
    if is_trace and purpose != Purpose.DIAGNOSE:
        raise wrong_field("purpose", _("a trace can only be diagnosed: nothing of it can be run"))
    if not is_trace and purpose == Purpose.DIAGNOSE:
        raise wrong_field("purpose", _("only traces: the findings of a model are a part of its other runs"))


def _check_target(target: str, purpose: str) -> None:
    if not TARGET.fullmatch(target):
        raise wrong_field("target", _("cpu, cuda:sm_NN or rocm:gfxNNN"))
    if purpose != Purpose.EXPLAIN:
        return
    if not target.startswith("cuda:"):
        raise wrong_field("target", _("explain predicts for a GPU: cuda:sm_NN"))
    there = known(target=PREDICTS)
    if there.cannot_predict(target):
        text = _("no worker predicts for {target}; there are: {known}")
        raise wrong_field("target", format_lazy(text, target=target, known=", ".join(sorted(there.predicts))))


def _check_kept(version: ModelVersion) -> None:
    if version.deleted_at is not None:
        raise PlatformError("runs:usage:version-deleted", version=str(version))


def _policy(given: Policy | dict[str, Any] | None, purpose: str) -> Policy:
    """Resolved. The budget of what only looks is at most the site's for inspections, whatever was asked."""
    try:
        policy = (
            given
            if isinstance(given, Policy)
            else Policy.model_validate(scrub.storable({} if given is None else given))
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise wrong_field(".".join(["policy", *(str(part) for part in first["loc"])]), first["msg"]) from error
    except scrub.TooDeep as error:
        raise wrong_field("policy", str(error)) from error
    if policy.budget_s > settings.RUN_TIME_LIMIT_S:
        raise wrong_field(
            "policy.budget_s", format_lazy(_("at most {limit_s} s on this site"), limit_s=settings.RUN_TIME_LIMIT_S)
        )
    if purpose in (Purpose.INSPECT, Purpose.DIAGNOSE):
        return policy.model_copy(update={"budget_s": min(policy.budget_s, float(settings.INSPECT_BUDGET_S))})
    return policy


def _check_backends(policy: Policy, target: str) -> None:
    there = known(target=target)
    for name in there.unknown_backends(policy.backends or []):
        text = format_lazy(
            _("no worker of {target} knows a backend called {name}; there are: {nearest}"),
            target=target,
            name=name,
            nearest=nearest(name, there.backends),
        )
        raise wrong_field("policy.backends", text)


def _workload(purpose: str, version: ModelVersion, given: Workload | None) -> Workload | None:
    from fuseworks.registry.selectors import current_workload  # the registry's services start runs

    if purpose in (Purpose.INSPECT, Purpose.DIAGNOSE):
        if given is not None:
            raise wrong_field("workload", _("an inspection takes none: it finds out"))
        return None
    if given is None:
        return current_workload(version=version)
    if given.version_id != version.pk:
        raise wrong_field("workload", _("it belongs to another version"))
    return given


def _check_against(actor: Actor, version: ModelVersion, purpose: str, against: ModelVersion | None) -> None:
    """Like the recipe of a replay, it must be something that all of the run's team may see: the run shows them all that
    it finds in it, in events, files and answers."""
    if purpose not in (Purpose.COMPARE, Purpose.DIAGNOSE):
        if against is not None:
            raise wrong_field("against", _("only for the purposes compare and diagnose"))
        return
    if against is None and purpose == Purpose.DIAGNOSE:
        return
    if against is None:
        raise wrong_field("against", _("compare needs the version to compare with"))
    team = version.model.team
    if not ModelVersion.objects.visible_to(actor).filter(pk=against.pk).exists():
        raise PlatformError("core:usage:not-found", what="version")
    if (against.format == Format.TRACE) != (version.format == Format.TRACE):
        raise wrong_field("against", _("a trace is compared with a trace, a model with a model"))
    if purpose == Purpose.DIAGNOSE and against.pk == version.pk:
        raise wrong_field("against", _("another trace than the one that is diagnosed"))
    if against.model.team_id != team.pk:
        raise PlatformError("runs:usage:other-teams-version", place="against", version=str(against), team=team.name)
    _check_kept(against)


def _check_recipe(actor: Actor, team: Team, purpose: str, recipe_version: Any) -> None:
    if purpose != Purpose.REPLAY:
        if recipe_version is not None:
            raise wrong_field("recipe_version", _("only for the purpose replay"))
        return
    if recipe_version is None:
        raise wrong_field("recipe_version", _("replay needs the version of a recipe"))
    from fuseworks.recipes.selectors import recipe_versions_visible_to, seen_by_all_of  # recipes build on runs

    if not recipe_versions_visible_to(actor).filter(pk=recipe_version.pk).exists():
        raise PlatformError("core:usage:not-found", what="recipe version")
    if not seen_by_all_of(team).filter(pk=recipe_version.pk).exists():
        raise PlatformError(
            "runs:usage:recipe-not-shared",
            place="recipe_version",
            name=recipe_version.recipe.name,
            version=recipe_version.version,
            team=team.name,
        )


def _check_gate(purpose: str, max_latency_ratio: float | None) -> None:
    if max_latency_ratio is None:
        return
    if purpose != Purpose.COMPARE:
        raise wrong_field("max_latency_ratio", _("only for the purpose compare"))
    if not (math.isfinite(max_latency_ratio) and max_latency_ratio > 0):
        raise wrong_field("max_latency_ratio", _("a number above 0, as 1.05"))
