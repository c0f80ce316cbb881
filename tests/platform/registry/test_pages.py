"""Pages of models and versions: what they show, and the runs that their forms start."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from fuseworks.accounts.models import Team
from fuseworks.fleet.models import Worker
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from tests.platform import factories
from tests.platform.registry.helpers import SOURCE, text, value_of

pytestmark = pytest.mark.django_db


# ---- lists --------------------------------------------------------------------------------------------------------


def test_the_list_shows_models_with_versions_and_verdicts(client: Client, version: ModelVersion) -> None:
    factories.make_result(factories.make_run(version, status="succeeded"))
    shown = client.get("/models/")
    assert f'href="/models/{version.model.pk}/"' in shown.content.decode()
    assert f'href="/versions/{version.pk}/"' in shown.content.decode()
    assert "faster" in text(shown) and "2.00×" in text(shown) and "Ads ranking" in text(shown)


def test_the_list_searches_and_keeps_what_was_asked(client: Client, version: ModelVersion) -> None:
    assert "DIN" in text(client.get("/models/?q=din&team=ads-ranking"))
    nothing = client.get("/models/?q=nothing")
    assert value_of(nothing, "q") == "nothing"
    assert "No model fits" in text(nothing) and "DIN" not in text(nothing)
    assert client.get("/models/?team=nobodys").status_code == 404
    assert client.get("/models/?q=%00&page=x").status_code == 200


def test_an_empty_list_says_what_to_do(client: Client) -> None:
    shown = client.get("/models/")
    assert "Your teams have no models yet" in text(shown)
    assert 'href="/uploads/new/"' in shown.content.decode()


def test_long_lists_have_pages_that_keep_the_search(client: Client, team: Team) -> None:
    for number in range(26):
        factories.make_model(team, f"Model {number:02d}")
    first = client.get("/models/?q=model")
    assert "page 1 of 2" in text(first) and "Model 24" in text(first) and "Model 25" not in text(first)
    assert 'href="?q=model&page=2"' in first.content.decode().replace("&amp;", "&")
    assert "Model 25" in text(client.get("/models/?q=model&page=2"))


# ---- a model ------------------------------------------------------------------------------------------------------


def test_a_model_shows_its_versions_and_runs(client: Client, version: ModelVersion) -> None:
    factories.make_version(version.model, deleted_at=timezone.now(), storage_key="", filename="gone.py")
    run = factories.make_run(version, status="succeeded")
    factories.make_result(run)
    shown = client.get(f"/models/{version.model.pk}/")
    assert "gone.py deleted" in text(shown)
    assert f'href="/runs/{run.pk}/"' in shown.content.decode()
    assert "[1.90, 2.10]" in text(shown)


def test_a_description_is_saved_and_shown_escaped(client: Client, version: ModelVersion) -> None:
    address = f"/models/{version.model.pk}/"
    saved = client.post(
        address, {"name": "DIN", "family": "ranking", "description": "<b>bold</b>\nsecond"}, follow=True
    )
    assert "&lt;b&gt;bold&lt;/b&gt;<br>second" in saved.content.decode()
    version.model.refresh_from_db()
    assert version.model.family == "ranking"


def test_a_name_that_is_taken_is_said_at_its_field(client: Client, version: ModelVersion, team: Team) -> None:
    factories.make_model(team, "DIEN")
    refused = client.post(
        f"/models/{version.model.pk}/", {"name": "dien", "family": "search", "description": "kept text"}
    )
    assert refused.status_code == 422
    assert value_of(refused, "name") == "dien"
    assert "kept text" in text(refused) and "has a model of this name already" in text(refused)
    version.model.refresh_from_db()
    assert version.model.name == "DIN"


# ---- a version ----------------------------------------------------------------------------------------------------


def test_a_version_shows_what_is_in_it(client: Client, version: ModelVersion) -> None:
    factories.make_workload(version)
    shown = text(client.get(f"/versions/{version.pk}/"))
    for fact in (
        ".py",
        "1,234,567",
        "4.71 MiB",
        "batch",
        "aten.relu.default 7",
        "It draws random numbers",
        "[batch, 1]",
    ):
        assert fact in shown


def test_a_version_without_anything_yet_says_what_comes(client: Client, team: Team) -> None:
    version = factories.make_version(factories.make_model(team))
    run = factories.make_run(version, purpose="inspect")
    shown = client.get(f"/versions/{version.pk}/")
    assert "It waits for a worker" in text(shown)
    assert f'hx-get="/versions/{version.pk}/inspection/"' in shown.content.decode()
    part = client.get(f"/versions/{version.pk}/inspection/")
    assert "HX-Refresh" not in part.headers
    Run.objects.filter(pk=run.pk).update(status="succeeded")
    assert client.get(f"/versions/{version.pk}/inspection/").headers["HX-Refresh"] == "true"


def test_a_failed_inspection_shows_its_cause_and_may_be_tried_again(client: Client, team: Team) -> None:
    version = factories.make_version(factories.make_model(team))
    problem = {"id": "x", "side": "user", "message": "No class Model.", "remedy": "Write one.", "place": "model.py:3"}
    factories.make_run(version, purpose="inspect", status="failed", problem=problem)
    shown = client.get(f"/versions/{version.pk}/")
    assert "No class Model." in text(shown) and "Write one." in text(shown) and "model.py:3" in text(shown)
    assert "hx-get" not in shown.content.decode()
    again = client.post(f"/versions/{version.pk}/inspect/")
    assert again.headers["Location"] == f"/versions/{version.pk}/"
    assert list(Run.objects.filter(purpose="inspect").values_list("status", flat=True).order_by("created_at")) == [
        "failed",
        "queued",
    ]
    assert "It waits for a worker" in text(client.get(f"/versions/{version.pk}/"))


def test_the_download_has_the_files_name(client: Client, version: ModelVersion) -> None:
    answer: Any = client.get(f"/versions/{version.pk}/file/")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="model.py"'
    assert b"".join(answer.streaming_content) == SOURCE


def test_deleting_asks_first_and_the_page_stays(client: Client, version: ModelVersion) -> None:
    address = f"/versions/{version.pk}/delete/"
    assert "cannot be undone" in text(client.get(address))
    version.refresh_from_db()
    assert version.deleted_at is None
    done = client.post(address, follow=True)
    assert done.redirect_chain == [(f"/versions/{version.pk}/", 302)]
    assert "deleted the file of this version" in text(done) and "1,234,567" in text(done)
    for gone in ("Download", "Make it faster", "Save as a new revision"):
        assert gone not in text(done)
    assert client.get(f"/versions/{version.pk}/file/").status_code == 410


def test_what_retention_took_is_said_so(client: Client, version: ModelVersion) -> None:
    ModelVersion.objects.filter(pk=version.pk).update(deleted_at=timezone.now(), storage_key="")
    assert "nobody used it for a long time" in text(client.get(f"/versions/{version.pk}/"))


def test_a_version_at_work_cannot_be_deleted(client: Client, version: ModelVersion) -> None:
    factories.make_run(version)
    refused = client.post(f"/versions/{version.pk}/delete/")
    assert refused.status_code == 409
    assert "queued or at work" in text(refused)


# ---- runs ---------------------------------------------------------------------------------------------------------


def worker(*, silent_s: float = 0, **fields: Any) -> Worker:
    seen = timezone.now() - timedelta(seconds=silent_s)
    return Worker.objects.create(host="h", last_seen_at=seen, started_at=seen, **fields)


def test_the_form_offers_no_target_of_which_no_worker_is_alive(client: Client, version: ModelVersion) -> None:
    worker(name="killed", target="cuda:sm_80", manifest={"backends": [{"name": "of_the_dead"}]}, silent_s=40 * 86400)
    factories.make_workload(version)
    shown = text(client.get(f"/versions/{version.pk}/"))
    assert "cuda:sm_80" not in shown and "of_the_dead" not in shown


def test_the_form_starts_a_run_with_its_policy(client: Client, version: ModelVersion) -> None:
    absent = {"name": "tvm", "unavailable": "not installed"}
    worker(name="a", target="cpu", manifest={"backends": [{"name": "aot_inductor"}, {"name": "openvino"}]})
    worker(name="b", target="cuda:sm_90", manifest={"backends": [{"name": "tensorrt"}, absent]})
    workload = factories.make_workload(version)
    shown = client.get(f"/versions/{version.pk}/")
    assert "cuda:sm_90" in text(shown) and "tensorrt" in text(shown) and "tvm" not in text(shown)
    form = {
        "run-target": "cuda:sm_90",
        "run-budget_s": "90.5",
        "run-precisions": ["float32", "bfloat16"],
        "run-max_pairs": "12",
        "run-backends": ["tensorrt"],
    }
    started = client.post(f"/versions/{version.pk}/optimize/", form)
    run = Run.objects.get()
    assert started.headers["Location"] == f"/runs/{run.pk}/"
    assert (run.purpose, run.target, run.workload) == ("optimize", "cuda:sm_90", workload)
    policy = run.policy
    assert (policy["budget_s"], policy["precisions"], policy["max_pairs"], policy["backends"]) == (
        90.5,
        ["float32", "bfloat16"],
        12,
        ["tensorrt"],
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("run-budget_s", "0", "greater than or equal to 1"),
        ("run-budget_s", "1e9", "At most 7200 seconds."),
        ("run-budget_s", "nan", "Enter a number."),
        ("run-max_pairs", "5", "greater than or equal to 6"),
        ("run-target", "tpu", "not one of the available choices"),
        ("run-precisions", "int4", "not one of the available choices"),
    ],
)
def test_a_wrong_policy_is_said_at_its_field_and_kept(
    client: Client, version: ModelVersion, field: str, value: str, message: str
) -> None:
    form = {"run-target": "cpu", "run-budget_s": "60", "run-precisions": "float32", "run-max_pairs": "8", field: value}
    refused = client.post(f"/versions/{version.pk}/optimize/", form)
    assert refused.status_code == 422
    assert message in text(refused)
    if field in ("run-budget_s", "run-max_pairs"):
        assert f'value="{value}"' in refused.content.decode()
    assert Run.objects.count() == 0


def test_two_versions_are_measured_side_by_side(client: Client, version: ModelVersion) -> None:
    assert "no other version whose file is kept" in text(client.get(f"/versions/{version.pk}/"))
    before = factories.make_version(version.model, data=b"x")
    started = client.post(f"/versions/{version.pk}/compare/", {"against": str(before.pk), "budget_s": "300"})
    run = Run.objects.get()
    assert started.headers["Location"] == f"/runs/{run.pk}/"
    assert (run.purpose, run.version, run.against, run.policy["budget_s"]) == ("compare", version, before, 300)


@pytest.mark.parametrize("against", ["", "no uuid", "stranger"])
def test_only_a_version_of_the_team_is_compared_with(client: Client, version: ModelVersion, against: str) -> None:
    factories.make_version(version.model, data=b"x")
    if against == "stranger":
        against = str(factories.make_version(factories.make_model(factories.make_team())).pk)
    refused = client.post(f"/versions/{version.pk}/compare/", {"against": against, "budget_s": "300"})
    assert refused.status_code == 422
    assert Run.objects.count() == 0


def test_viewers_see_everything_and_no_button(team: Team, version: ModelVersion) -> None:
    factories.make_workload(version)
    shown = text(factories.client_for(factories.make_member(team, "viewer")).get(f"/versions/{version.pk}/"))
    assert "1,234,567" in shown and "may look at runs, not start them" in shown
    for button in ("Make it faster", "Save as a new revision", "Delete"):
        assert button not in shown


# ---- many versions -------------------------------------------------------------------------------------------------


def test_a_model_with_a_version_a_commit_is_shown_in_parts(client: Client, version: ModelVersion) -> None:
    for _ in range(29):
        factories.make_version(version.model)
    pages = (client.get(f"/models/{version.model_id}/", {"page": page}) for page in ("1", "2"))
    newest, last = (page.content.decode() for page in pages)
    assert ">v30<" in newest and ">v5<" not in newest
    assert ">v5<" in last and ">v30<" not in last


def test_the_version_to_compare_with_may_be_older_than_the_list(client: Client, version: ModelVersion) -> None:
    for _ in range(33):
        factories.make_version(version.model)
    newest = version.model.versions.order_by("-number")[0]
    factories.make_workload(newest)
    assert f'<option value="{version.pk}"' not in client.get(f"/versions/{newest.pk}/").content.decode()
    answer = client.post(f"/versions/{newest.pk}/compare/", {"against": str(version.pk), "budget_s": "60"})
    assert answer.status_code == 302
    assert Run.objects.get(purpose="compare").against == version
