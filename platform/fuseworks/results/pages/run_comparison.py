"""Before and after: everything that a run found out, on one page, and its exports (`?format=csv`, `?format=json`)."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import SAVE_RECIPE, actor_of, may
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import attached
from fuseworks.core.telling import message_of
from fuseworks.recipes.models import RecipeVersion
from fuseworks.recipes.selectors import applied_visible
from fuseworks.registry.models import ModelVersion
from fuseworks.results import exports, operation_exports, selectors, snippets
from fuseworks.results.models import RunResult
from fuseworks.results.reading import conditions, contenders, headline, operations, predicted, tables
from fuseworks.results.reading.document import parse
from fuseworks.results.reading.latencies import Unreadable, curves
from fuseworks.results.reading.steps import step_words
from fuseworks.results.services import curves_of
from fuseworks.results.sides import Sides, side_names, sides
from fuseworks.runs.models import Artifact, Purpose, Run
from fuseworks.runs.selectors import against_label, against_visible
from optimizer.result import ComparedAs, Result

SAMPLES, PACKAGE = "samples.json", "package.zip"
OPERATIONS = "operations"  # `?format=csv&table=operations`
AGAIN = "baseline_again"  # the second process of the baseline, which gives the noise floor


@page("runs/<uuid:run_id>/comparison/", title=gettext_lazy("Before and after"), name="run_comparison")
@require_safe
def run_comparison(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    run = selectors.run_visible(actor=actor, run_id=run_id)
    if run.purpose == Purpose.DIAGNOSE:
        return redirect("run_diagnosis", run_id=run.pk)
    stored = selectors.result_of(run)
    wanted = request.GET.get("format")
    if stored is None:
        if wanted is not None:
            selectors.result_or_404(run)
        return render(request, "results/no_result.html", {"run": run})
    result = parse(stored.document)
    if wanted == "csv":
        return _csv(run, result, operations_only=request.GET.get("table") == OPERATIONS)
    against = against_visible(actor=actor, run=run)
    if wanted == "json":
        shown = exports.as_json(run, stored, result, against=against)
        return _attached(run, JsonResponse(shown, json_dumps_params={"indent": 2}), "json")
    applied = applied_visible(actor=actor, run=run)
    context = {**_page(run, stored, result, against), **_by_other_means(request, run, against, applied)}
    is_found = bool(result.recipe) and run.purpose != Purpose.COMPARE
    context["may_save_recipe"] = is_found and may(actor, run.team, SAVE_RECIPE)
    return render(request, "results/run_comparison.html", context)


def _page(run: Run, stored: RunResult, result: Result, against: ModelVersion | None) -> dict[str, Any]:
    seen = sides(run, result)
    other = against_label(run=run, against=against)
    shown = _contenders(run, result, seen, other)
    told, silent = tables.rewrites(result)
    gains = tables.ablation(result)
    judged = headline.equal_settings(result) or next(iter(result.comparisons), None)
    return {
        "run": run,
        "against": against,
        "against_label": other,
        # of a comparison it is the other upload's, more often than not
        "inspection": result.inspection if run.against_id is None or against is not None else None,
        "stored": stored,
        "result": result,
        "compares": run.purpose == Purpose.COMPARE,
        "predicted": predicted.shown(result.predicted) if result.predicted is not None else None,
        "sides": seen,
        "gate_check": getattr(run, "gate_check", None),
        "title": headline.title(result, seen, run.version, other),
        "headlines": headline.headlines(result) if run.purpose != Purpose.COMPARE else [],
        "nothing_offered": headline.nothing_offered(result) if run.purpose != Purpose.COMPARE else "",
        "disturbance": headline.disturbance(result),
        "contenders": shown,
        "figures": contenders.rows(shown),
        "numerics": contenders.numerics(result),
        "judged": judged,
        "confidence": headline.percent(judged.interval.confidence) if judged is not None else "",
        "judged_bars": tables.judged_bars(result),
        **_packaged(run, result, other),
        "candidates": tables.candidates(result),
        "rewrites": told,
        "rewrites_silent": silent,
        "ablation": gains,
        "checked_gains": run.checked_gains.order_by("rule", "remedy"),
        "ablation_bars": tables.ablation_bars(gains),
        **_operations(result),
        "fixed": conditions.facts(result.conditions.fixed if result.conditions else None),
        "observed": conditions.facts(result.conditions.observed if result.conditions else None),
        **_latencies(run, stored, {one.name: one.label for one in shown} if seen is not None else {}),
    }


def _operations(result: Result) -> dict[str, Any]:
    found = operations.rows(result)
    before, after = operations.moments(result)
    return {
        "moment_before": before,
        "moment_after": after,
        "operations": found[: operations.MAX_ROWS],
        "operations_left": max(0, len(found) - operations.MAX_ROWS),
        "no_after": operations.why_no_after(result),
    }


def _contenders(run: Run, result: Result, seen: Sides | None, other: str) -> list[contenders.Contender]:
    """Of a `compare` run both uploads."""
    return contenders.contenders(result) if seen is None else _both(run, result, other)


def _packaged(run: Run, result: Result, other: str) -> dict[str, Any]:
    """Of a comparison of packages: the steps, and what came of them on each side as far as it was tried."""
    if result.compared_as != ComparedAs.PACKAGED or not result.recipe:
        return {"packaged_steps": [], "packaged": []}
    steps = [step_words(step) for step in result.recipe["steps"]]
    return {"packaged_steps": steps, "packaged": _both(run, result, other)}


def _both(run: Run, result: Result, other: str) -> list[contenders.Contender]:
    """Both uploads of a comparison by the names of their versions, as far as the document has them."""
    told = side_names(run, result)
    if told is None:
        return []
    by_name = {one.candidate.name: one for one in result.candidates}
    both = (("against", other, told[1]), ("version", str(run.version), told[0]))
    return [contenders.Contender(role, label, by_name[name]) for role, label, name in both if name in by_name]


def _latencies(run: Run, stored: RunResult, names: dict[str, str]) -> dict[str, Any]:
    artifact = _artifact(run, SAMPLES)
    if artifact is None:
        return {"curves": [], "curves_reason": ""}
    try:
        found = curves_of(stored=stored, samples=artifact)
        shown = curves(found, {AGAIN: _("baseline once more (A/A)"), **names})
    except (Unreadable, PlatformError) as error:  # the file may be gone: the rest of the page still stands
        return {"curves": [], "curves_reason": message_of(error) if isinstance(error, PlatformError) else str(error)}
    return {"curves": shown, "curve_documents": [curve.document() for curve in shown], "curves_reason": ""}


def _by_other_means(
    request: HttpRequest, run: Run, against: ModelVersion | None, applied: RecipeVersion | None
) -> dict[str, Any]:
    root = request.build_absolute_uri("/")
    has_package = _artifact(run, PACKAGE) is not None
    return {
        "files": selectors.artifacts_of(run),
        "package_name": PACKAGE if has_package else None,
        "snippet_groups": [
            (_("As API"), snippets.as_api(run, root, has_package=has_package, against=against, applied=applied)),
            (
                _("As command line"),
                snippets.as_command(run, root, has_package=has_package, against=against, applied=applied),
            ),
        ],
    }


def _artifact(run: Run, name: str) -> Artifact | None:
    return next((one for one in selectors.artifacts_of(run) if one.name == name), None)


def _csv(run: Run, result: Result, *, operations_only: bool) -> HttpResponse:
    text = operation_exports.as_csv(run, result) if operations_only else exports.as_csv(run, result)
    response = HttpResponse(text, content_type="text/csv; charset=utf-8")
    return _attached(run, response, "csv", OPERATIONS if operations_only else "result")


def _attached(run: Run, response: HttpResponse, suffix: str, what: str = "result") -> HttpResponse:
    return attached(response, snippets.filename(run, f"{str(run.pk)[:8]}-{what}.{suffix}"))
