"""The same by other means: what the page shows, as curl and as the `fuseworks` command would ask for it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from fuseworks.recipes.models import RecipeVersion
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import CompareAs, Purpose, Run
from optimizer.spec import Policy

TOKEN = '"Authorization: Bearer $FUSEWORKS_TOKEN"'


@dataclass(frozen=True)
class Snippet:
    title: str
    lines: str


def as_api(
    run: Run, root: str, *, has_package: bool, against: ModelVersion | None, applied: RecipeVersion | None
) -> list[Snippet]:
    """`root` is the site's address with a slash at its end. `against`, `applied`: as the reader may see them."""
    api = f"{root}api/v1/"
    shown = [Snippet(_("This result"), f"curl -H {TOKEN} \\\n  {api}runs/{run.pk}/result/")]
    if run.purpose == Purpose.DIAGNOSE:
        shown = [Snippet(_("The diagnosis"), f"curl -H {TOKEN} \\\n  {api}runs/{run.pk}/diagnosis/")]
    else:
        shown.append(
            Snippet(_("Its candidates as CSV"), f"curl -H {TOKEN} \\\n  '{api}runs/{run.pk}/result/?format=csv'")
        )
    if has_package:
        name = shlex.quote(filename(run, "package.zip"))
        shown.append(
            Snippet(_("The package"), f"curl -H {TOKEN} -o {name} \\\n  {api}runs/{run.pk}/artifacts/package.zip/")
        )
    if (run.against_id is not None and against is None) or (run.recipe_version_id is not None and applied is None):
        return shown  # who may not see it cannot ask the same either
    body = shlex.quote(json.dumps(_body(run), indent=2))
    shown.append(
        Snippet(
            _("The same run once more"),
            f"curl -H {TOKEN} -H 'Content-Type: application/json' \\\n  {api}runs/ -d {body}",
        )
    )
    return shown


def as_command(
    run: Run, root: str, *, has_package: bool, against: ModelVersion | None, applied: RecipeVersion | None
) -> list[Snippet]:
    shown = [
        Snippet(_("Sign in, once"), f"fuseworks login {root.rstrip('/')}"),
        Snippet(_("Follow this run, or see how it ended"), f"fuseworks follow {run.pk}"),
    ]
    if has_package:
        shown.append(Snippet(_("The package"), f"fuseworks package {run.pk}"))
    if run.purpose == Purpose.OPTIMIZE:
        shown.append(Snippet(_("The same run once more"), _submitted(run)))
    if run.purpose == Purpose.EXPLAIN:
        asked = f"fuseworks explain {shlex.quote(run.version.filename)} --target {run.target}"
        shown.append(Snippet(_("The same on your own machine"), asked))
    if run.purpose == Purpose.DIAGNOSE:
        before = f" --against {shlex.quote(against.filename)}" if against is not None else ""
        asked = f"fuseworks diagnose {shlex.quote(run.version.filename)}{before}"
        shown.append(Snippet(_("The same on your own machine"), asked))
    if run.purpose == Purpose.REPLAY and applied is not None:
        again = f"fuseworks recipe apply {applied.pk} {run.version_id} --wait{_policy(run)}"
        shown.append(Snippet(_("The same run once more"), again))
    check = getattr(run, "gate_check", None)
    if check is not None and against is not None:
        # a number is one of the same model
        named = against.number if against.model_id == run.version.model_id else against.pk
        asked = f"{_submitted(run)} \\\n  --against {named} --max-latency-ratio {check.max_latency_ratio:g}"
        if run.compare_as in (CompareAs.PACKAGED, CompareAs.UPLOADED):
            asked += f" --as {run.compare_as}"
        shown.append(Snippet(_("The same gate in a pipeline"), asked))
    return shown


def _submitted(run: Run) -> str:
    model = run.version.model
    asked = f"fuseworks submit {shlex.quote(run.version.filename)} --wait"
    return f"{asked} --team {model.team.slug} --name {shlex.quote(model.name)}{_policy(run)}"


def _policy(run: Run) -> str:
    """The budget, and what else of the run's policy is not the command's own default."""
    policy, usual = Policy.model_validate(run.policy), Policy()
    asked = f" --budget {policy.budget_s:g}s"
    if policy.max_pairs != usual.max_pairs:
        asked += f" --max-pairs {policy.max_pairs}"
    if policy.max_error_ratio != usual.max_error_ratio:
        asked += f" --max-error-ratio {policy.max_error_ratio:g}"
    if policy.precisions != usual.precisions:
        asked += "".join(f" --precision {precision}" for precision in policy.precisions)
    if policy.backends is not None and run.purpose == Purpose.OPTIMIZE:
        asked += "".join(f" --backend {backend}" for backend in policy.backends)
    return asked


def filename(run: Run, name: str) -> str:
    """`din-v3-package.zip`: what a downloaded file of this run is called."""
    return f"{run.version.model.slug}-v{run.version.number}-{name}"


def _body(run: Run) -> dict[str, Any]:
    body: dict[str, Any] = {"version": str(run.version_id), "purpose": run.purpose, "target": run.target}
    if run.workload_id is not None:
        body["workload"] = str(run.workload_id)
    if run.purpose == Purpose.COMPARE:
        body |= {"against": str(run.against_id), "compare_as": run.compare_as or CompareAs.AUTO.value}
        check = getattr(run, "gate_check", None)
        if check is not None:
            body["max_latency_ratio"] = check.max_latency_ratio
    if run.purpose == Purpose.DIAGNOSE and run.against_id is not None:
        body["against"] = str(run.against_id)
    if run.purpose == Purpose.REPLAY:
        body["recipe_version"] = str(run.recipe_version_id)
    return {**body, "policy": run.policy}
