"""The pages of runs, as readers, members and strangers see them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fuseworks.accounts.models import Team
from fuseworks.gates.models import GateCheck
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Artifact, Run
from fuseworks.runs.services import attempt_give_up, events_append, run_finish
from tests.platform import factories
from tests.platform.runs.steps import NOW, at, claimed, event, worker_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(team: Team) -> Client:
    return factories.client_for(factories.make_member(team))


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def shown(browser: Client, address: str, status: int = 200) -> str:
    answer = browser.get(address)
    assert answer.status_code == status
    return text_of(answer)


def test_the_list_says_what_to_do_when_there_is_nothing(browser: Client) -> None:
    text = shown(browser, "/runs/")
    assert "Your teams have no runs yet" in text
    assert 'href="/models/"' in text


def test_the_list_shows_ones_own_runs_with_status_and_verdict(browser: Client, version: ModelVersion) -> None:
    done = factories.make_run(version, status="succeeded")
    factories.make_result(done)
    theirs = factories.make_run(factories.make_version(factories.make_model(factories.make_team(), "Secret")))
    text = shown(browser, "/runs/")
    assert f'href="/runs/{done.pk}/"' in text
    assert "2.00×" in text and "[1.90, 2.10]" in text and 'data-word="faster"' in text
    assert str(theirs.pk) not in text and "Secret" not in text


def test_filters_stand_in_the_address_and_in_the_form(browser: Client, version: ModelVersion) -> None:
    queued, failed = factories.make_run(version), factories.make_run(version, status="failed")
    text = shown(browser, "/runs/?status=failed&team=ads-ranking")
    assert f"/runs/{failed.pk}/" in text and f"/runs/{queued.pk}/" not in text
    assert '<option value="failed" selected>' in text
    assert '<option value="ads-ranking" selected>' in text
    assert "No run fits" in shown(browser, "/runs/?status=running")


def test_a_filter_that_makes_no_sense_is_named(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version)
    text = shown(browser, "/runs/?status=odd&model=odd")
    assert "status: " in text and "model: " in text
    assert f"/runs/{run.pk}/" not in text


def test_pages_of_the_list_keep_the_filters(browser: Client, version: ModelVersion) -> None:
    for _ in range(26):
        factories.make_run(version, status="failed")
    text = shown(browser, "/runs/?status=failed")
    assert 'href="?status=failed&amp;page=2"' in text
    assert shown(browser, "/runs/?status=failed&page=2").count('<th scope="row">') == 1


def test_a_queued_run_says_why_it_waits_and_asks_again_by_itself(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version)
    text = shown(browser, f"/runs/{run.pk}/")
    assert "No worker serves this target at the moment." in text
    assert 'href="/fleet/"' in text
    assert f'hx-get="/runs/{run.pk}/live/" hx-trigger="every 2s"' in text
    assert "the log begins when a worker takes the run" in text
    assert f'action="/runs/{run.pk}/cancel/"' in text and "/retry/" not in text


def test_a_run_at_work_shows_stages_measurements_and_its_log(browser: Client, version: ModelVersion) -> None:
    worker_row("host cpu")
    run = factories.make_run(version)
    attempt = claimed(run)
    best = {"name": "openvino", "speedup": 1.5}
    screened = event(
        "benchmarking",
        "openvino: 1.5x",
        candidate="openvino",
        done=3,
        total=9,
        data={"speedup": 1.5, "median_ms": 4.2, "best": best},
    )
    hostile = event("log", "<script>alert(1)</script>", data={"detail": "Traceback <b>"})
    events_append(attempt=attempt, first=0, events=[event("capturing"), screened, hostile])
    text = shown(browser, f"/runs/{run.pk}/")
    assert "host cpu" in text
    assert 'data-stage="capturing" data-state="seen"' in text
    assert 'data-stage="benchmarking" data-state="current"' in text
    assert 'data-stage="verifying" data-state="pending"' in text
    assert "4.20 ms" in text and "1.50×" in text and "(3/9)" in text
    assert "in its last screening, no verdict" in text
    assert "Median, first screening" in text and "Speedup, last screening" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "<script>alert" not in text
    assert "Traceback &lt;b&gt;" in text
    assert not re.search(r"\bstyle=|\bon[a-z]+=\"", text)


def test_the_best_so_far_is_the_first_of_the_table_below_it(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version)

    def screened(name: str, speedup: float, **data: Any) -> dict[str, Any]:
        return event("benchmarking", name, candidate=name, data={"speedup": speedup, **data})

    alone = {"name": "openvino", "speedup": 26.71}
    first = screened("openvino", 26.71, median_ms=1.0, best=alone)
    together = [screened("openvino", 6.55), screened("inductor", 4.0)]
    events_append(attempt=claimed(run), first=0, events=[first, *together])
    text = shown(browser, f"/runs/{run.pk}/live/")
    assert "openvino 6.55× <span" in text and "26.71" not in text


def test_the_live_part_stops_asking_when_the_run_is_over(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version)
    answer = browser.get(f"/runs/{run.pk}/live/")
    assert (answer.status_code, "hx-get" in text_of(answer)) == (200, True)
    run_finish(attempt=claimed(run), document=factories.result_document())
    answer = browser.get(f"/runs/{run.pk}/live/")
    assert (answer.status_code, "hx-get" in text_of(answer)) == (286, False)
    assert f'href="/runs/{run.pk}/comparison/"' in text_of(answer)


def test_the_log_is_sent_again_only_when_there_is_something_new(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version)
    attempt = claimed(run)
    address = f"/runs/{run.pk}/log/live/"
    assert browser.get(f"{address}?after=0").status_code == 204
    events_append(attempt=attempt, first=0, events=[event(message="one")])
    text = shown(browser, f"{address}?after=0")
    assert "one" in text and f'hx-get="{address}?after=1000000"' in text
    with CaptureQueriesContext(connection) as asked:
        assert browser.get(f"{address}?after=1000000").status_code == 204
    reads = [query["sql"] for query in asked if 'FROM "runs_runevent"' in query["sql"]]
    assert len(reads) == 1 and "LIMIT 1" in reads[0] and '"data"' not in reads[0]
    run_finish(attempt=attempt, document=factories.result_document())
    text = shown(browser, f"{address}?after=1000000", 286)
    assert "one" in text and "hx-get" not in text


def test_only_the_last_two_hundred_events_are_shown_and_all_are_in_the_download(
    browser: Client, version: ModelVersion
) -> None:
    run = factories.make_run(version)
    events = [event(message=f"event {n:03d}", done=n, total=205) for n in range(205)]
    events.append(event("log", "the end", data={"detail": "a traceback"}))
    events_append(attempt=claimed(run), first=0, events=events)
    text = shown(browser, f"/runs/{run.pk}/")
    assert "event 006" in text and "event 005" not in text
    assert "Only the last 200 events are shown." in text
    answer = browser.get(f"/runs/{run.pk}/log/")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert re.fullmatch(r'attachment; filename="din-v1-[0-9a-f]{8}-log.txt"', answer.headers["Content-Disposition"])
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0] == "1     1.500 s  compiling     event 000 [0/205]"
    assert lines[-2:] == ["1     1.500 s  log           the end", "a traceback"]
    assert len(lines) == 207


def test_a_run_that_failed_shows_cause_place_and_remedy(browser: Client, version: ModelVersion) -> None:
    problem = {
        "id": "child:user:exception",
        "side": "user",
        "message": "The model's own code raised ValueError",
        "place": "model.py:41",
        "remedy": "Run it by itself.",
        "detail": "Traceback",
        "context": {},
    }
    run = factories.make_run(version, status="failed", problem=problem)
    text = shown(browser, f"/runs/{run.pk}/")
    assert all(part in text for part in ("own code raised ValueError", "model.py:41", "Run it by itself.", "Traceback"))
    assert f'action="/runs/{run.pk}/retry/"' in text and "hx-get" not in text.partition('id="run-live"')[2]


def test_files_gate_and_snippets_are_on_the_page(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version, status="succeeded", purpose="compare", against=version)
    factories.make_result(run)
    GateCheck.objects.create(run=run, max_latency_ratio=1.05, outcome="pass")
    Artifact.objects.create(run=run, attempt=1, name="package.zip", size_bytes=2048, sha256="0" * 64, storage_key="k")
    text = shown(browser, f"/runs/{run.pk}/")
    assert f'href="/runs/{run.pk}/files/package.zip/"' in text and "2.00 KiB" in text
    assert 'data-word="pass"' in text and "at most 1.05 times the latency" in text
    assert f"http://testserver/api/v1/runs/{run.pk}/events/?after=0&amp;wait=20" in text
    assert f"fuseworks follow {run.pk}" in text


def test_a_version_of_a_team_that_the_reader_is_not_in_is_not_named(browser: Client, version: ModelVersion) -> None:
    theirs = factories.make_version(factories.make_model(factories.make_team(), "Secret"))
    run = factories.make_run(version, purpose="compare", against=theirs)
    text = shown(browser, f"/runs/{run.pk}/")
    assert "a version of another team" in text
    assert "Secret" not in text


def test_attempts_are_told_when_there_was_more_than_one(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version)
    attempt_give_up(attempt=claimed(run), reason="no room on the disk", now=at(1))
    assert "no room on the disk" not in shown(browser, f"/runs/{run.pk}/live/")
    claimed(run, at(20))
    assert "no room on the disk" in shown(browser, f"/runs/{run.pk}/live/")


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("succeeded", "seen"),
        ("failed", "failed"),
        ("errored", "failed"),
        ("timed_out", "failed"),
        ("cancelled", "cancelled"),
    ],
)
def test_the_last_stage_of_a_run_that_did_not_succeed_has_no_tick(
    browser: Client, version: ModelVersion, status: str, state: str
) -> None:
    run = factories.make_run(version)
    attempt = claimed(run)
    events_append(attempt=attempt, first=0, events=[event("capturing"), event("compiling")])
    Run.objects.filter(pk=run.pk).update(status=status, ended_at=NOW)
    text = shown(browser, f"/runs/{run.pk}/")
    assert 'data-stage="capturing" data-state="seen"' in text
    assert f'data-stage="compiling" data-state="{state}"' in text
    assert text.count("✓ ") == (2 if state == "seen" else 1)


def test_cancelling_and_repeating_by_buttons(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version)
    answer = browser.post(f"/runs/{run.pk}/cancel/", follow=True)
    assert answer.redirect_chain == [(f"/runs/{run.pk}/", 302)]
    assert "The run was cancelled." in text_of(answer)
    answer = browser.post(f"/runs/{run.pk}/retry/", follow=True)
    again = Run.objects.get(retry_of=run)
    assert answer.redirect_chain == [(f"/runs/{again.pk}/", 302)]
    assert "The same run once more" in text_of(answer)
    claimed(again)
    answer = browser.post(f"/runs/{again.pk}/cancel/", follow=True)
    assert "The worker was asked to stop." in text_of(answer)
    assert "Stopping…" in text_of(answer)
    Run.objects.filter(pk=again.pk).update(status="cancelled", ended_at=NOW)
    for address in (f"/runs/{again.pk}/", f"/runs/{again.pk}/live/"):
        assert "The worker was asked to stop." not in text_of(browser.get(address))


def test_what_cannot_be_done_is_an_error_page(browser: Client, version: ModelVersion) -> None:
    over = factories.make_run(version, status="failed")
    answer = browser.post(f"/runs/{over.pk}/cancel/")
    assert answer.status_code == 409
    assert "This run is over" in text_of(answer)


def test_buttons_are_posts_with_a_token(version: ModelVersion, team: Team) -> None:
    run = factories.make_run(version)
    user = factories.make_member(team)
    read = factories.client_for(user).get(f"/runs/{run.pk}/cancel/")
    assert (read.status_code, read.headers["Location"]) == (302, f"/runs/{run.pk}/")
    strict = factories.client_for(user, enforce_csrf_checks=True)
    assert strict.post(f"/runs/{run.pk}/cancel/").status_code == 403
    run.refresh_from_db()
    assert run.status == "queued"


def test_a_viewer_sees_no_buttons_and_is_refused(version: ModelVersion, team: Team) -> None:
    viewer = factories.client_for(factories.make_member(team, "viewer"))
    run = factories.make_run(version)
    assert "/cancel/" not in shown(viewer, f"/runs/{run.pk}/")
    assert viewer.post(f"/runs/{run.pk}/cancel/").status_code == 403
    over = factories.make_run(version, status="failed")
    assert "/retry/" not in shown(viewer, f"/runs/{over.pk}/")
    assert viewer.post(f"/runs/{over.pk}/retry/").status_code == 403


@pytest.mark.parametrize("path", ["", "live/", "log/", "log/live/"])
def test_strangers_get_404_and_who_is_not_signed_in_is_asked_to(version: ModelVersion, path: str) -> None:
    run = factories.make_run(version)
    stranger = factories.client_for(factories.make_member(factories.make_team()))
    assert stranger.get(f"/runs/{run.pk}/{path}").status_code == 404
    answer = Client().get(f"/runs/{run.pk}/{path}")
    assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/sign-in/")


@pytest.mark.parametrize("path", ["cancel/", "retry/"])
def test_strangers_cannot_press_buttons(version: ModelVersion, path: str) -> None:
    run = factories.make_run(version)
    stranger = factories.client_for(factories.make_member(factories.make_team()))
    assert stranger.post(f"/runs/{run.pk}/{path}").status_code == 404
    assert Run.objects.count() == 1


def test_live_parts_are_never_kept_by_a_browser(browser: Client, version: ModelVersion) -> None:
    run = factories.make_run(version)
    for path in ("", "live/"):
        assert "no-store" in browser.get(f"/runs/{run.pk}/{path}").headers["Cache-Control"]
