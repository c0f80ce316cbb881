"""Pages of the registry, runs, results, recipes, gates and fleet apps."""

from __future__ import annotations

from django.core.files.uploadedfile import SimpleUploadedFile

from tests.platform.recipes.documents import document
from tests.platform.scoping.rules import Case, anyone, case, team
from tests.platform.scoping.world import PYTHON, World


def a_model(world: World) -> dict[str, object]:
    return {"model_id": world.model.pk}


def a_version(world: World) -> dict[str, object]:
    return {"version_id": world.version.pk}


def a_run(world: World) -> dict[str, object]:
    return {"run_id": world.finished.pk}


def a_queued_run(world: World) -> dict[str, object]:
    return {"run_id": world.queued.pk}


def a_file(world: World) -> dict[str, object]:
    return {"run_id": world.finished.pk, "name": "report.html"}


def a_draft(world: World) -> dict[str, object]:
    return {"version_id": world.draft.pk}


def a_published(world: World) -> dict[str, object]:
    return {"version_id": world.published.pk}


def a_deprecated(world: World) -> dict[str, object]:
    return {"version_id": world.deprecated.pk}


def a_recipe(world: World) -> dict[str, object]:
    return {"recipe_id": world.published.recipe_id}


def a_kernel(world: World) -> dict[str, object]:
    return {"name": world.kernel}


def upload_form(world: World) -> dict[str, object]:
    return {"team": world.team.slug, "model_name": "New one", "file": SimpleUploadedFile("model.py", PYTHON + b"#n\n")}


def a_trace(world: World) -> dict[str, object]:
    return {"version_id": world.trace.pk}


def a_diagnosis(world: World) -> dict[str, object]:
    return {"run_id": world.diagnosis.pk}


def trace_form(world: World) -> dict[str, object]:
    file = SimpleUploadedFile("t.json", b'{"traceEvents": [ ]}')
    return {"team": world.team.slug, "model_name": "New one", "file": file}


def two_runs(world: World) -> str:
    return f"runs={world.finished.pk},{world.finished_too.pk}"


RUN_FORM = {"run-target": "cpu", "run-budget_s": "480", "run-precisions": ["float32"], "run-max_pairs": "18"}
NO_UPLOAD = {"outsider": 422, "operator": 403, "removed": 403}

REGISTRY: dict[str, Case] = {
    "models": case(GET=anyone()),
    "model": case(
        a_model,
        GET=team("viewer"),
        POST=team("member", lambda w: {"name": "Renamed", "family": w.model.family, "description": ""}),
    ),
    # the form offers the teams to which one may upload: another one is an error at the field
    "upload_new": case(GET=anyone(), POST=team("member", upload_form, but=NO_UPLOAD)),
    "version": case(a_version, GET=team("viewer")),
    "version_file": case(a_version, GET=team("viewer")),
    "version_inspection": case(a_version, GET=team("viewer")),
    "version_inspect": case(a_version, POST=team("member")),
    "version_optimize": case(a_version, POST=team("member", lambda w: RUN_FORM)),
    "version_predict": case(a_version, POST=team("member", lambda w: {"predict-target": "cuda:sm_90"})),
    "version_compare": case(a_version, POST=team("member", lambda w: {"against": w.before.pk, "budget_s": "480"})),
    "version_delete": case(
        lambda w: {"version_id": w.idle_version.pk}, GET=team("maintainer"), POST=team("maintainer")
    ),
    "version_workload": case(
        a_version, POST=team("member", lambda w: {"document": "inputs: [{name: y, dtype: float32, shape: [2]}]"})
    ),
    "version_workload_restore": case(lambda w: {**a_version(w), "number": 1}, POST=team("member")),
}
RUNS: dict[str, Case] = {
    "runs": case(GET=anyone()),
    "run": case(a_run, GET=team("viewer")),
    "run_live": case(a_run, GET=team("viewer")),
    "run_log": case(a_run, GET=team("viewer")),
    "run_log_live": case(a_run, GET=team("viewer")),
    "run_cancel": case(a_queued_run, POST=team("member")),
    "run_retry": case(a_run, POST=team("member")),
}
RESULTS: dict[str, Case] = {
    "run_comparison": case(a_run, GET=team("viewer")),
    "run_file": case(a_file, GET=team("viewer")),
    "predicted_gains": case(GET=anyone()),
    "comparisons": case(
        GET=team("viewer", query=two_runs),
        POST=team("member", lambda w: {"runs": [w.finished_too.pk, w.finished.pk]}),
    ),
}
TRACES: dict[str, Case] = {
    "traces": case(GET=anyone()),
    "trace_new": case(GET=anyone(), POST=team("member", trace_form, but=NO_UPLOAD)),
    "trace": case(a_trace, GET=team("viewer")),
    "trace_diagnose": case(a_trace, POST=team("member", lambda w: {"against": w.trace_before.pk})),
    "run_diagnosis": case(a_diagnosis, GET=team("viewer")),
    "run_finding": case(lambda w: {**a_diagnosis(w), "rule": "data_loading"}, GET=team("viewer")),
}
RECIPES: dict[str, Case] = {
    "catalog": case(GET=anyone()),
    "kernels": case(GET=anyone()),
    "kernel": case(a_kernel, GET=anyone()),
    "recipe": case(a_recipe, GET=team("viewer")),
    "recipe_save": case(a_run, POST=team("member")),
    "recipe_new": case(
        GET=anyone(),
        POST=team("member", lambda w: {"team": w.team.slug, "document": _text()}),
    ),
    "recipe_edit": case(a_draft, GET=team("member"), POST=team("member", lambda w: {"document": _text()})),
    "recipe_publish": case(
        a_draft,
        GET=team("maintainer"),
        POST=team("maintainer", lambda w: {"visibility": "unit", "digest": w.draft.digest}),
    ),
    "recipe_deprecate": case(
        a_published, GET=team("maintainer"), POST=team("maintainer", lambda w: {"reason": "it is slower now"})
    ),
    "recipe_undeprecate": case(a_deprecated, POST=team("maintainer")),
    "recipe_derive": case(a_published, POST=team("member", lambda w: {"team": w.team.slug})),
    "recipe_delete": case(a_draft, POST=team("member")),
    "recipe_visibility": case(a_recipe, POST=team("maintainer", lambda w: {"visibility": "unit"})),
    "recipe_apply": case(
        a_published,
        GET=team("viewer"),
        POST=team("member", lambda w: {"version": w.version.pk, "budget_s": "480"}),
    ),
}
REST: dict[str, Case] = {
    "gates": case(GET=anyone()),
    "fleet": case(GET=anyone()),
    "fleet_live": case(GET=anyone()),
}
PAGES = {**REGISTRY, **RUNS, **RESULTS, **TRACES, **RECIPES, **REST}


def _text() -> str:
    import json

    return json.dumps(document("edited"))
