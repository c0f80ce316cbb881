"""The dashboard: what it shows of the reader's own teams, and what a beginner is told to do."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from fuseworks.runs.models import Run
from tests.platform import factories as make

pytestmark = pytest.mark.django_db


def shown(client: Client, name: str = "home") -> str:
    response = client.get(reverse(name))
    assert response.status_code == 200
    return response.content.decode()


def test_a_stranger_is_sent_to_sign_in(client: Client) -> None:
    response = client.get("/")
    assert response.status_code == 302
    assert response.headers["Location"] == f"{reverse('sign_in')}?next=/"


def test_a_user_without_a_team_is_told_whom_to_ask() -> None:
    text = shown(make.client_for(make.make_user()))
    assert "You are in no team yet" in text
    assert reverse("upload_new") not in text


def test_a_new_team_is_told_how_to_begin_by_page_and_by_command_line() -> None:
    text = shown(make.client_for(make.make_member(make.make_team())))
    assert f'href="{reverse("upload_new")}"' in text
    assert "fuseworks login http://testserver" in text
    assert "fuseworks submit examples/din.py --wait" in text


def test_a_viewer_is_not_offered_an_upload() -> None:
    text = shown(make.client_for(make.make_member(make.make_team(), role="viewer")))
    assert reverse("upload_new") not in text
    assert "Make your first model faster" in text


def test_running_runs_stand_before_queued_ones_and_the_page_asks_again_while_there_are_any() -> None:
    version = make.make_version(make.make_model(make.make_team()))
    client = make.client_for(make.make_member(version.model.team))
    queued = make.make_run(version)
    running = make.make_run(
        version,
        status="running",
        stage="verifying",
        candidate="inductor + merge",
        progress={"at_s": 62.0, "budget_s": 310.0},
    )
    text = shown(client, "home_work")
    assert text.index(str(running.pk)) < text.index(str(queued.pk))
    assert "verifying: inductor + merge" in text
    assert '<progress class="progress" max="310" value="62"' in text
    assert "waits for a worker" in text
    assert f'hx-get="{reverse("home_work")}"' in text
    Run.objects.update(status="cancelled")
    assert "hx-get" not in shown(client, "home_work")


def test_results_show_verdict_speedup_and_interval() -> None:
    version = make.make_version(make.make_model(make.make_team()))
    run = make.make_run(version, status="succeeded")
    make.make_result(run)
    text = shown(make.client_for(make.make_member(version.model.team)))
    assert reverse("run", args=[run.pk]) in text
    assert 'data-word="faster"' in text
    assert re.search(r"2\.00× <span[^>]*>\[1\.90, 2\.10\]", text)


def test_an_inspection_is_listed_only_when_it_failed() -> None:
    version = make.make_version(make.make_model(make.make_team()))
    good = make.make_run(version, purpose="inspect", status="succeeded")
    bad = make.make_run(version, purpose="inspect", status="failed")
    text = shown(make.client_for(make.make_member(version.model.team)))
    assert str(bad.pk) in text
    assert str(good.pk) not in text


def test_models_are_ordered_by_their_last_upload_and_count_only_versions_that_are_there() -> None:
    team = make.make_team()
    old, new = make.make_model(team, "Older"), make.make_model(team, "Newer")
    deleted = make.make_version(old)
    make.make_version(old)
    make.make_version(new)
    type(deleted).objects.filter(pk=deleted.pk).update(deleted_at=deleted.created_at)
    text = shown(make.client_for(make.make_member(team)))
    assert text.index("Newer") < text.index("Older")
    assert re.search(r"Older</a></th><td>[^<]*</td><td class=\"figure\">1</td>", text)


def test_nothing_of_another_team_is_shown() -> None:
    theirs = make.make_version(make.make_model(make.make_team(), "Secret model"))
    runs = [make.make_run(theirs), make.make_run(theirs, status="succeeded")]
    text = shown(make.client_for(make.make_member(make.make_team())))
    assert "Secret model" not in text
    assert not [run for run in runs if str(run.pk) in text]


def test_a_page_asks_the_database_as_often_for_many_runs_as_for_one(django_assert_max_num_queries: object) -> None:
    version = make.make_version(make.make_model(make.make_team()))
    client = make.client_for(make.make_member(version.model.team))
    for _ in range(6):
        make.make_result(make.make_run(version, status="succeeded"))
        make.make_run(version)
    with django_assert_max_num_queries(16):  # type: ignore[operator]
        shown(client)
