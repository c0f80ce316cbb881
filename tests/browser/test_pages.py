"""Every page with something on it, in a real browser: no complaint, no barrier that axe calls grave, nothing that
overflows a telephone. One walk for each language and theme: starting a browser for each page would take minutes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse

from fuseworks.fleet.models import Worker
from fuseworks.runs.models import Run, RunEvent
from optimizer.coordinator.diagnose import diagnosed
from tests.browser.conftest import OpenPage
from tests.browser.support import Watched
from tests.platform.factories import make_run
from tests.platform.recipes.test_kernels import MANIFEST
from tests.platform.results import predictions
from tests.platform.results.support import document, finished_run
from tests.platform.results.test_predicted_gains import ended, told
from tests.platform.scoping.world import World
from tests.platform.traces.support import diagnosis_run, read

pytestmark = pytest.mark.django_db(transaction=True)

TELEPHONE_PX, SCREEN_PX = 320, 1280

Address = Callable[[World], str]


def at(name: str, *arguments: Callable[[World], object]) -> Address:
    return lambda world: reverse(name, args=[argument(world) for argument in arguments])


def finished(world: World) -> object:
    """The run with the result of a real optimization of DIN."""
    return Run.objects.get(result__document__winner=document("din")["winner"]).pk


def running(world: World) -> object:
    return Run.objects.get(status="running").pk


def failed(world: World) -> object:
    return Run.objects.get(status="failed").pk


def predicted(world: World) -> object:
    return Run.objects.get(purpose="explain").pk


def compared_traces(world: World) -> object:
    """Of two ranks, against another trace."""
    return Run.objects.get(purpose="diagnose", against=world.trace_before).pk


PAGES: dict[str, Address] = {
    "dashboard": at("home"),
    "models": at("models"),
    "model": at("model", lambda w: w.model.pk),
    "version": at("version", lambda w: w.version.pk),
    "version-never-inspected": at("version", lambda w: w.idle_version.pk),
    "version-delete": at("version_delete", lambda w: w.version.pk),
    "upload": at("upload_new"),
    "runs": at("runs"),
    "run-queued": at("run", lambda w: w.queued.pk),
    "run-running": at("run", running),
    "run-failed": at("run", failed),
    "run-finished": at("run", finished),
    "comparison": at("run_comparison", finished),
    "run-predicted": at("run", predicted),
    "comparison-predicted": at("run_comparison", predicted),
    "comparison-of-two-versions": at("run_comparison", lambda w: w.gate.pk),
    "comparisons": lambda world: reverse("comparisons") + f"?runs={world.finished.pk},{world.finished_too.pk}",
    "comparisons-choose": at("comparisons"),
    "traces": at("traces"),
    "trace": at("trace", lambda w: w.trace.pk),
    "trace-new": at("trace_new"),
    "run-of-a-trace": at("run", lambda w: w.diagnosis.pk),
    "diagnosis": at("run_diagnosis", lambda w: w.diagnosis.pk),
    "diagnosis-nothing-fits": lambda world: reverse("run_diagnosis", args=[world.diagnosis.pk]) + "?kind=kernels",
    "diagnosis-of-ranks-compared": at("run_diagnosis", compared_traces),
    "finding": at("run_finding", lambda w: w.diagnosis.pk, lambda w: "data_loading"),
    "predicted-gains": at("predicted_gains"),
    "predicted-gains-of-one-remedy": lambda world: (
        reverse("predicted_gains") + "?rule=many_embeddings&remedy=pass+merge_embedding_tables"
    ),
    "gates": at("gates"),
    "catalog": at("catalog"),
    "catalog-nothing-fits": lambda world: reverse("catalog") + "?q=nothing-like-this",
    "kernels": at("kernels"),
    "kernels-nothing-fits": lambda world: reverse("kernels") + "?q=nothing-like-this",
    "kernel": at("kernel", lambda w: w.kernel),
    "recipe": at("recipe", lambda w: w.published.recipe_id),
    "recipe-draft": at("recipe", lambda w: w.draft.recipe_id),
    "recipe-deprecated": at("recipe", lambda w: w.deprecated.recipe_id),
    "recipe-publish": at("recipe_publish", lambda w: w.draft.pk),
    "recipe-deprecate": at("recipe_deprecate", lambda w: w.published.pk),
    "recipe-edit": at("recipe_edit", lambda w: w.draft.pk),
    "recipe-apply": at("recipe_apply", lambda w: w.published.pk),
    "fleet": at("fleet"),
    "tokens": at("tokens"),
    "teams": at("teams"),
    "team": at("team", lambda w: w.team.slug),
    "team-audit": at("team_audit", lambda w: w.team.slug),
    "team-audit-nothing-fits": lambda world: reverse("team_audit", args=[world.team.slug]) + "?what=nothing",
    "team-new": at("team_new"),
    "profile": at("profile"),
    "change-password": at("change_password"),
    "close-account-last-owner": at("close_account"),
    "health": at("health"),
}
# Of these pictures may be taken (`Watched.screenshot`).
SHOWN = {"models", "version", "upload", "runs", "run-running", "catalog", "recipe", "fleet", "team", "tokens"}
OPERATORS_PAGES = {
    "quotas": at("quotas"),
    "quota": at("quota", lambda w: w.team.slug),
    "close-account": at("close_account"),
}
STRANGERS_PAGES = {"sign-in": at("sign_in"), "reset-password": at("reset_password")}


@pytest.fixture
def world() -> World:
    made = World()
    shown = finished_run(document("din"), made.version)
    weak = told(1.0, 1.3, 1.6, evidence="finalists", remedy="pass split_target_attention", rule="rewritable_structure")
    ended(told(1.1, 1.4, 1.25), told(1.0, 1.2, 0.97), told(1.0, 1.1), weak, run=shown)
    finished_run(predictions.document(purpose="explain"), made.version, target="cuda:sm_90")
    Worker.objects.update(manifest={**MANIFEST, "predicts": ["cuda:sm_80", "cuda:sm_90"]})
    ranks = [read("rank0.json"), read("rank1.json", rank=1, waits_for_data=True)]
    compared = diagnosed(["ranks.zip"], ranks, [read("before.json")])
    diagnosis_run(made.trace, compared, against=made.trace_before)
    run = make_run(
        made.version,
        status="running",
        stage="benchmarking",
        candidate="aot_inductor + merged tables",
        progress={"message": "measuring", "done": 3, "total": 12, "at_s": 200.0, "budget_s": 310.0},
    )
    for number, kind in enumerate(["capturing", "profiling", "diagnosing", "optimizing", "benchmarking"], 1):
        RunEvent.objects.create(run=run, attempt=1, number=number, kind=kind, at_s=number * 7.5, message=f"{kind} it")
    problem = {
        "id": "child:user:exception",
        "side": "user",
        "message": "The model's own code raised ValueError: bad shape",
        "remedy": "Run the model by itself in Python with the same inputs and mend the error at the named line.",
        "place": "model.py:41",
    }
    make_run(made.version, status="failed", problem=problem)
    return made


def walk(watched: Watched, world: World, pages: dict[str, Address]) -> list[str]:
    """What is wrong with which page."""
    found = []
    for name, address in pages.items():
        page = watched.page
        response = page.goto(address(world))
        assert response is not None and response.status == 200, f"{name}: {response and response.status}"
        page.wait_for_load_state("networkidle")
        found += [f"{name}: {barrier}" for barrier in watched.barriers()]
        if name in SHOWN:
            watched.screenshot(name)
        page.set_viewport_size({"width": TELEPHONE_PX, "height": 700})
        width = page.evaluate("document.documentElement.scrollWidth")
        found += [f"{name}: {width} px wide on a telephone"] if width > TELEPHONE_PX else []
        page.set_viewport_size({"width": SCREEN_PX, "height": 800})
        found += [f"{name}: {complaint}" for complaint in watched.unexpected]
        watched.complaints.clear()
    return found


@pytest.mark.parametrize(("language", "theme"), [("en", "light"), ("zh-hans", "dark")])
def test_every_page_can_be_read_by_everybody(open_page: OpenPage, world: World, language: str, theme: str) -> None:
    watched = open_page("/", world.people["owner"], language, theme)
    assert "\n".join(walk(watched, world, PAGES)) == ""


@pytest.mark.parametrize(("language", "theme"), [("en", "dark"), ("zh-hans", "light")])
def test_a_stranger_can_read_his_pages(open_page: OpenPage, world: World, language: str, theme: str) -> None:
    watched = open_page(reverse("sign_in"), None, language, theme)
    assert "\n".join(walk(watched, world, STRANGERS_PAGES)) == ""


@pytest.mark.parametrize(("language", "theme"), [("en", "dark"), ("zh-hans", "light")])
def test_an_operator_can_read_his_pages(open_page: OpenPage, world: World, language: str, theme: str) -> None:
    watched = open_page("/", world.people["operator"], language, theme)
    assert "\n".join(walk(watched, world, OPERATORS_PAGES)) == ""


@pytest.mark.parametrize("role", ["viewer", "outsider"])
def test_pages_without_the_right_to_change_anything_can_be_read_too(
    open_page: OpenPage, world: World, role: str
) -> None:
    open_to_all = ["dashboard", "models", "upload", "runs", "catalog", "fleet", "tokens", "teams"]
    watched = open_page("/", world.people[role])
    assert "\n".join(walk(watched, world, {name: PAGES[name] for name in open_to_all})) == ""
