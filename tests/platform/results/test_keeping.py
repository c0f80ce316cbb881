"""A run's document is kept whole, with the figures that lists sort by."""

from __future__ import annotations

import pytest

from fuseworks.results.models import RunResult
from fuseworks.results.reading.document import parse
from fuseworks.results.when_finished import keep_the_document
from fuseworks.runs.finished import finished_functions
from optimizer.result import Result
from tests.platform.factories import make_model, make_run, make_team, make_version
from tests.platform.results.support import compared, document, finished_run, result, two_versions

pytestmark = pytest.mark.django_db


def test_the_document_stands_as_the_optimizer_wrote_it():
    run = finished_run(document("din"))
    assert Result.model_validate(run.result.document) == result("din")


def test_the_headline_columns_are_the_documents_own_figures():
    kept = finished_run(document("din")).result
    assert kept.verdict == "faster"
    assert kept.speedup == 3.0439777850400986
    assert (kept.speedup_low, kept.speedup_high) == (2.49783675062527, 3.70953015784485)
    assert kept.speedup_as_deployed == 3.1542945592782923
    assert (kept.baseline_ms, kept.best_ms) == (10.710881, 3.5976809999999997)
    assert kept.winner == "aot_inductor + rewrites - merge_embedding_tables"
    assert kept.fingerprint == "c2467e440c55880b1d1788b134a0d69c940b4a18654d7395b2170d2d01ddde4b"
    assert kept.attempt == 1


def test_it_is_registered_for_every_run_that_ends():
    assert keep_the_document in finished_functions()


def test_a_run_that_failed_keeps_what_was_found_until_then():
    problem = {"id": "child:user:exception", "side": "user", "message": "The model's own code raised.", "remedy": "x"}
    found = {"purpose": "optimize", "status": "failed", "summary": "failed", "problem": problem}
    kept = finished_run(found).result
    assert (kept.verdict, kept.speedup, kept.winner, kept.fingerprint) == ("", None, "", "")
    assert kept.document["problem"]["id"] == "child:user:exception"


def test_what_postgresql_cannot_store_does_not_lose_the_document():
    found = document("dlrm")
    found["notes"] = ["a model wrote \x00 here"]
    run = make_run(make_version(make_model(make_team())), status="succeeded")
    answer = Result.model_validate(found)
    assert answer.conditions is not None
    answer.conditions.observed["noise_floor"] = float("nan")
    keep_the_document(run, answer)
    kept = RunResult.objects.get(run=run)
    assert parse(kept.document).conditions.observed["noise_floor"] is None
    assert "a model wrote" in kept.document["notes"][0] and "\x00" not in kept.document["notes"][0]


@pytest.mark.parametrize("base_is_the_version", [False, True])
def test_a_comparison_is_listed_as_its_version_sees_it(base_is_the_version):
    before, after = two_versions()
    # the version takes 0.5 to 0.8 of the time of the one before: it is 1.25 to 2 times as fast
    figures = {"low": 0.5, "high": 0.8} if base_is_the_version else {"low": 1.25, "high": 2.0}
    medians = (10.0, 16.0) if base_is_the_version else (16.0, 10.0)
    found = compared(
        after if base_is_the_version else before,
        **figures,
        verdict="slower" if base_is_the_version else "faster",
        baseline_ms=medians[0],
        best_ms=medians[1],
    )
    kept = finished_run(found, after, against=before).result
    assert kept.verdict == "faster"
    assert kept.speedup_low == pytest.approx(1.25) and kept.speedup_high == pytest.approx(2.0)
    assert (kept.baseline_ms, kept.best_ms) == (16.0, 10.0)


def test_a_comparison_of_unknown_sides_is_listed_without_figures():
    before, after = two_versions()
    kept = finished_run(document("compare"), after, against=before).result
    assert (kept.verdict, kept.speedup, kept.baseline_ms) == ("", None, None)
    assert kept.document["comparisons"]
