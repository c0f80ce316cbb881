"""`/api/v1/runs/ID/result/`: the whole document with the figures that a pipeline reads."""

from __future__ import annotations

import csv
import io

import pytest

from fuseworks.runs.models import Run
from tests.platform.factories import api_for, make_member, make_run, make_team, make_token
from tests.platform.results.support import compared, document, finished_run, two_versions

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return finished_run(document("din"))


def address(run: Run) -> str:
    return f"/api/v1/runs/{run.pk}/result/"


def test_it_is_the_headline_and_the_document(run):
    found = api_for(make_token(make_member(run.team, "viewer"), scopes=("read",))).get(address(run)).json()
    assert found["document"] == run.result.document
    headline = found["headline"]
    assert (headline["verdict"], headline["speedup"]) == ("faster", 3.0439777850400986)
    assert headline["speedup_ci"] == {"low": 2.49783675062527, "high": 3.70953015784485, "confidence": 0.99}
    assert headline["best_peer"]["name"] == "aot_inductor"
    assert (headline["verdict_as_deployed"], headline["verdict_over_best_peer"]) == ("faster", "faster")
    assert (headline["pairs"], headline["looks"], headline["noise_floor"]) == (12, 2, 0.0867519132787351)
    assert headline["latency_ratio"] is None
    assert (found["run"]["id"], found["run"]["version_number"]) == (str(run.pk), 1)


def test_a_comparison_is_told_from_the_side_of_its_version():
    before, after = two_versions()
    # the document's base is the version itself, and it takes 1.25 to 1.6 times as long
    found = compared(after, low=1.25, high=1.6, verdict="faster")
    run = finished_run(found, after, against=before)
    headline = api_for(make_member(run.team)).get(address(run)).json()["headline"]
    assert headline["verdict"] == "slower"
    assert headline["latency_ratio"] == pytest.approx(2**0.5)
    assert headline["latency_ratio_ci"] == {"low": 1.25, "high": 1.6, "confidence": 0.99}
    assert headline["speedup_ci"] == {"low": pytest.approx(0.625), "high": pytest.approx(0.8), "confidence": 0.99}


def test_the_candidates_come_as_csv_on_request(run):
    answer = api_for(make_member(run.team)).get(address(run), {"format": "csv"})
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert len(list(csv.DictReader(io.StringIO(answer.content.decode())))) == 12


def test_an_error_is_a_problem_document_even_where_csv_was_asked_for(run):
    waiting = make_run(run.version, status="running")
    answer = api_for(make_member(run.team)).get(address(waiting), {"format": "csv"})
    assert answer.status_code == 404
    assert b"results:usage:none-yet" in answer.content


def test_a_run_without_a_result_says_whether_to_wait(run):
    api = api_for(make_member(run.team))
    waiting = api.get(address(make_run(run.version, status="running")))
    assert (waiting.status_code, waiting.json()["id"]) == (404, "results:usage:none-yet")
    ended = api.get(address(make_run(run.version, status="cancelled")))
    assert (ended.status_code, ended.json()["id"]) == (404, "results:usage:none")


def test_a_stranger_gets_404(run):
    answer = api_for(make_token(make_member(make_team()))).get(address(run))
    assert (answer.status_code, answer.json()["id"]) == (404, "core:usage:not-found")
