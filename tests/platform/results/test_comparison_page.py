"""`/runs/ID/comparison/`: everything that a run found, and its exports."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shlex
import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from fuseworks.core.storage import delete_stored
from fuseworks.gates.models import GateCheck
from fuseworks.runs.models import Run
from tests.platform.factories import client_for, make_member, make_run, make_user, result_document
from tests.platform.results.support import (
    DOCUMENTS,
    RECIPE,
    compared,
    document,
    finished_run,
    keep_file,
    two_versions,
)

pytestmark = pytest.mark.django_db

NOT_PACKAGED = {
    "id": "compare:user:after-not-packaged",
    "side": "user",
    "message": "after.py cannot be packaged as the model that it is compared with: its graph has no such tables",
}
WINNER = "aot_inductor + rewrites - merge_embedding_tables"


@pytest.fixture
def run() -> Run:
    return finished_run(document("din"))


def reader(run: Run, role: str = "member") -> Client:
    return client_for(make_member(run.team, role))


def address(run: Run) -> str:
    return reverse("run_comparison", args=[run.pk])


def text(client: Client, where: str) -> str:
    """The page's words: tags out, white space made single."""
    answer = client.get(where)
    assert answer.status_code == 200, answer.content[:2000]
    body = re.sub(r"<script.*?</script>", " ", answer.content.decode(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_both_headlines_stand_with_intervals_verdicts_and_reasons(run):
    page = text(reader(run), address(run))
    assert "3.04× as fast as the original" in page
    assert "Under equal settings 3.04× faster 99 % interval [2.50, 3.71]" in page
    assert "As deployed 3.15× faster 99 % interval [2.50, 3.97]" in page
    assert "Over the best peer 1.95× faster 99 % interval [1.60, 2.36]" in page
    assert "Over 12 pairs of fresh processes the whole 99 % interval [2.50, 3.71] lies above 1" in page
    assert "noise floor of 8.7 %" in page


def test_all_three_stand_side_by_side_with_units(run):
    page = text(reader(run), address(run))
    assert "Baseline Baseline, default settings Best peer Winner Candidate baseline" in page
    assert "Median of single calls 10.7 ms 11.8 ms 7.11 ms 3.60 ms" in page
    for words in ("90th percentile", "99th percentile", "Throughput", "Peak memory", "Compile time", "Load time"):
        assert words in page
    assert "out0 float32 1.88e-06 1.96e-06 1.94e-06 1.56e-05 5.62e-08 384 yes" in page


def test_all_candidates_are_listed_and_a_screening_is_called_one(run):
    page = text(reader(run), address(run))
    for evaluation in run.result.document["candidates"]:
        assert evaluation["candidate"]["name"] in page
    assert "Screening, no verdict" in page
    assert "openvino by itself reaches 73% of the fastest engine" in page
    assert "4.75 ms screened" in page
    assert "3.60 ms screened" not in page  # the winner's figures are the judged ones


def test_rewrites_name_their_places_and_steps_their_gains(run):
    page = text(reader(run), address(run))
    assert "din.py:28 linear : batched: cat once a sample" in page
    assert "Nothing in this graph looks like the pattern of: remove_noops ," in page
    assert "pass split_target_attention 2.02× [1.52, 2.69] cannot tell – 5" in page
    assert "all 5 places" in page  # merge_embedding_tables


def test_findings_conditions_and_the_way_of_measuring_are_told(run):
    page = text(reader(run), address(run))
    assert "480 page faults a call" in page and "ask for huge pages: a runtime step" in page
    assert "Before, the original: 12.5 ms a call in operations." in page
    assert "libraries.torch 2.13.0+cpu" in page
    assert "Seed 164079811" in page and "Looks at the figures 2" in page
    assert "c2467e440c55" in page


def test_notes_of_the_run_are_shown_as_text(run):
    run.result.document["notes"] = ["<script>alert(1)</script> was left out"]
    run.result.save()
    body = reader(run).get(address(run)).content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; was left out" in body
    assert "<script>alert(1)" not in body


def test_a_source_line_of_a_hostile_model_cannot_leave_the_charts_data(run):
    run.result.document["comparisons"][0]["other"] = run.result.document["winner"] = "</script><b>x"
    run.result.save()
    assert "</script><b>x" not in reader(run).get(address(run)).content.decode()


def test_the_pages_of_peers_that_win_say_what_is_offered():
    run = finished_run(document("dlrm"))
    page = text(reader(run), address(run))
    assert "What is offered is aot_inductor itself" in page
    assert "Winner: the best peer Candidate baseline" in page


def test_a_document_without_candidates_or_comparisons_shows_what_it_has(run):
    bare = finished_run(result_document(), run.version)
    page = text(reader(run), address(bare))
    assert "Under equal settings 2.00× faster 99 % interval [1.90, 2.10]" in page
    assert "As deployed 2.50×" in page
    assert "y float32 1.00e-07 – 2.00e-07 1.03e-05 3.00e-07 64 yes" in page


# ---- latencies -----------------------------------------------------------------------------------------------------


def curves_of(client: Client, run: Run) -> list[dict[str, Any]]:
    body = client.get(address(run)).content.decode()
    found = re.search(r'<script id="latency-curves" type="application/json">(.*?)</script>', body)
    assert found is not None
    curves: list[dict[str, Any]] = json.loads(found.group(1))
    return curves


def test_the_distribution_is_drawn_from_the_runs_own_samples(run):
    keep_file(run, "samples.json", (DOCUMENTS / "din_samples.json").read_bytes())
    curves = curves_of(reader(run), run)
    assert [curve["name"] for curve in curves][:2] == [WINNER, "baseline"]
    assert all(curve["points"][-1][1] == 1.0 for curve in curves)


def test_thinned_curves_are_labelled_as_such(run):
    calls = [1_000_000 + i for i in range(1200)]
    keep_file(run, "samples.json", json.dumps({"baseline": [{"calls_ns": [calls]}]}).encode())
    client = reader(run)
    (curve,) = curves_of(client, run)
    assert len(curve["points"]) == 500
    assert curve["label"] == "baseline (1,200 calls)"
    assert "Of baseline 500 of 1200 calls are drawn" in text(client, address(run))


def test_unreadable_samples_cost_only_their_chart(run):
    keep_file(run, "samples.json", b"[]")
    page = text(reader(run), address(run))
    assert "Not drawn: the samples are not in the expected form" in page and "3.04×" in page


def test_missing_samples_cost_only_their_chart(run):
    artifact = keep_file(run, "samples.json", (DOCUMENTS / "din_samples.json").read_bytes())
    delete_stored(artifact.storage_key)
    page = text(reader(run), address(run))
    assert "Not drawn: There is no such file here" in page and "3.04×" in page
    run.result.refresh_from_db()
    assert run.result.curves is None  # the storage may be back next time


def test_the_samples_are_read_once(run):
    artifact = keep_file(run, "samples.json", (DOCUMENTS / "din_samples.json").read_bytes())
    client = reader(run)
    first = curves_of(client, run)
    delete_stored(artifact.storage_key)
    assert curves_of(client, run) == first
    run.result.refresh_from_db()
    assert max(len(one["points"]) for one in run.result.curves["curves"]) <= 500


def test_without_samples_there_is_no_chart(run):
    assert "Latency of single calls" not in text(reader(run), address(run))


# ---- ends without a verdict ----------------------------------------------------------------------------------------


def test_a_run_that_goes_on_says_when_there_will_be_something(run):
    waiting = make_run(run.version, status="running")
    page = text(reader(run), address(waiting))
    assert "Nothing to compare yet" in page and "Follow the run" in page


def test_a_run_without_a_document_says_what_to_do(run):
    problem = {"id": "runs:ours:lost", "message": "Its worker was lost.", "remedy": "Start it again."}
    lost = make_run(run.version, status="errored", problem=problem)
    page = text(reader(run), address(lost))
    assert "This run left no result" in page and "Its worker was lost." in page and "Start it again." in page


def test_a_failed_run_shows_its_cause_and_what_was_found_until_then():
    found = document("din")
    found.update(
        status="failed",
        verdict=None,
        speedup=None,
        speedup_ci=None,
        speedup_as_deployed=None,
        speedup_as_deployed_ci=None,
        winner=None,
        best_peer=None,
        comparisons=[],
        problem={
            "id": "child:user:timed-out",
            "side": "user",
            "message": "It gave no answer.",
            "place": "din.py:41",
            "remedy": "Look for endless loops.",
        },
    )
    run = finished_run(found)
    page = text(reader(run), address(run))
    assert "It gave no answer." in page and "din.py:41" in page and "Look for endless loops." in page
    assert "Nothing was judged in this run" in page
    assert "aot_inductor + rewrites" in page


def test_an_inspection_says_that_it_compares_nothing(run):
    inspected = finished_run({"purpose": "inspect", "status": "succeeded"}, run.version)
    assert "An inspection compares nothing" in text(reader(run), address(inspected))


# ---- two versions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base_is_the_version", [False, True])
def test_two_versions_are_told_by_the_ratio_of_the_newer_one(base_is_the_version):
    before, after = two_versions()
    # the version takes 1.25 to 1.6 times as long as the one before, in both documents
    figures = {"low": 1.25, "high": 1.6} if base_is_the_version else {"low": 0.625, "high": 0.8}
    verdict = "faster" if base_is_the_version else "slower"
    run = finished_run(
        compared(after if base_is_the_version else before, **figures, verdict=verdict), after, against=before
    )
    GateCheck.objects.create(run=run, max_latency_ratio=1.05, outcome="fail")
    page = text(reader(run), address(run))
    assert "DIN v2 is slower than DIN v1: latency_ratio 1.414, 99 % interval [1.250, 1.600]" in page
    assert "latency_ratio 1.414 slower 99 % interval [1.250, 1.600]" in page
    assert "Gate fail" in page
    assert "Do the two answer alike?" in page and "differs by 1.54e+00 of the spread" in page
    medians = "101 ms 65.0 ms" if base_is_the_version else "65.0 ms 101 ms"
    assert f"DIN v1 DIN v2 Median of single calls {medians}" in page


def packaged(**fields: Any) -> Run:
    before, after = two_versions()
    found = compared(before, low=0.97, high=1.01, verdict="same", compared_as="packaged", recipe=RECIPE, **fields)
    verification = {"passed": True, "outputs": [], "probes": [], "reason": None, "first_diverging": None}
    for one in found["candidates"]:
        one["candidate"] = {"name": one["candidate"]["name"], "steps": RECIPE["steps"]}
        one["verification"] = verification
    return finished_run(found, after, against=before, recipe_document=RECIPE, compare_as="auto")


def test_a_comparison_of_packages_says_how_both_were_made_and_that_each_is_right():
    run = packaged()
    page = text(reader(run), address(run))
    assert "What is measured: as packaged, by the same steps on both sides" in page
    assert "How both were packaged" in page and "pass merge_embedding_tables backend openvino" in page
    assert "DIN v1 passed verified against float64 DIN v2 passed verified against float64" in page
    assert "Recipe din-openvino 1.0.0" in page
    assert "save-recipe" not in page and reverse("recipe_save", args=[run.pk]) not in page


def test_a_comparison_of_uploads_says_that_there_was_no_package():
    before, after = two_versions()
    found = compared(before, low=0.97, high=1.01, verdict="same", compared_as="uploaded")
    run = finished_run(found, after, against=before, compare_as="auto")
    page = text(reader(run), address(run))
    assert "no run of the version before left a package for this workload and target" in page
    assert "How both were packaged" not in page


def test_a_version_that_the_steps_do_not_fit_is_named_with_the_reason_and_its_gate():
    run = packaged(status="failed", comparisons=[], problem=NOT_PACKAGED)
    GateCheck.objects.create(run=run, max_latency_ratio=1.05, outcome="no_result")
    page = text(reader(run), address(run))
    assert "after.py cannot be packaged as the model that it is compared with" in page
    assert "The two versions were not measured." in page and "What is measured: as packaged" in page
    assert "Gate no result" in page


def test_no_verdict_is_shown_when_the_document_is_about_other_uploads():
    before, after = two_versions()
    run = finished_run(document("compare"), after, against=before)
    page = text(reader(run), address(run))
    assert "does not say which of the two uploads was measured as what" in page
    assert "is slower than" not in page and "is faster than" not in page


# ---- what to do with it --------------------------------------------------------------------------------------------


def test_a_recipe_can_be_saved_by_those_who_may_when_there_is_one(run):
    button = f'action="{reverse("recipe_save", args=[run.pk])}"'
    assert button in reader(run).get(address(run)).content.decode()
    assert button not in reader(run, "viewer").get(address(run)).content.decode()
    without = finished_run({**document("din"), "recipe": None}, run.version)
    assert "save-recipe" not in reader(run).get(address(without)).content.decode()


def test_the_same_is_said_as_curl_and_as_command(run):
    keep_file(run, "package.zip", b"PK")
    page = text(reader(run), address(run))
    assert f"http://testserver/api/v1/runs/{run.pk}/result/" in page
    assert f"http://testserver/api/v1/runs/{run.pk}/artifacts/package.zip/" in page
    assert "fuseworks login http://testserver" in page and f"fuseworks package {run.pk}" in page


def test_a_gate_is_asked_again_with_its_own_limit():
    before, after = two_versions()
    run = finished_run(compared(before, low=1.25, high=1.6, verdict="faster"), after, against=before)
    GateCheck.objects.create(run=run, max_latency_ratio=1.05, outcome="pass")
    page = text(reader(run), address(run))
    assert f"&quot;against&quot;: &quot;{before.pk}&quot;, &quot;compare_as&quot;: &quot;auto&quot;" in page
    assert "&quot;max_latency_ratio&quot;: 1.05" in page
    name = shlex.quote(after.model.name)
    asked = f"fuseworks submit model.py --wait --team {after.model.team.slug} --name {name} --budget 290s"
    asked = html.escape(f"{asked} \\ --against 1 --max-latency-ratio 1.05")
    assert asked in page and f"{asked} --as" not in page
    Run.objects.filter(pk=run.pk).update(compare_as="packaged")
    assert f"{asked} --as packaged" in text(reader(run), address(run))


def test_no_package_is_offered_that_is_not_there(run):
    page = text(reader(run), address(run))
    assert "Download the package" not in page and "fuseworks package" not in page


def test_the_table_is_exported_as_csv_with_one_row_a_candidate(run):
    answer = reader(run).get(address(run), {"format": "csv"})
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="din-v1-{str(run.pk)[:8]}-result.csv"'
    rows = {row["candidate"]: row for row in csv.DictReader(io.StringIO(answer.content.decode()))}
    assert len(rows) == 12
    winner = rows[WINNER]
    assert (winner["role"], winner["status"], winner["judged_verdict"]) == ("winner", "passed", "faster")
    assert float(winner["judged_speedup"]) == 3.0439777850400986
    assert float(winner["median_ms"]) == 3.5976809999999997
    assert rows["openvino + rewrites"]["median_ms"] == "" and rows["openvino + rewrites"]["reason"]
    assert rows["aot_inductor + rewrites"]["figures_are_screened"] == "True"
    assert rows["aot_inductor + rewrites"]["judged_speedup"] == ""


def test_a_name_that_a_spreadsheet_would_run_is_made_harmless(run):
    run.result.document["candidates"][0]["candidate"]["name"] = "=HYPERLINK(1)"
    run.result.save()
    assert "'=HYPERLINK(1)" in reader(run).get(address(run), {"format": "csv"}).content.decode()


def test_everything_is_exported_as_json(run):
    answer = reader(run).get(address(run), {"format": "json"})
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.json()["document"] == run.result.document
    assert answer.json()["headline"]["speedup"] == 3.0439777850400986


def test_there_is_nothing_to_export_of_a_run_without_a_result(run):
    waiting = make_run(run.version, status="running")
    assert reader(run).get(address(waiting), {"format": "json"}).status_code == 404


# ---- who may see it ------------------------------------------------------------------------------------------------


def test_a_stranger_sees_nothing_and_a_viewer_everything(run):
    assert reader(run, "viewer").get(address(run)).status_code == 200
    assert client_for(make_user()).get(address(run)).status_code == 404
    assert Client().get(address(run)).status_code == 302
    assert reader(run).get(reverse("run_comparison", args=[uuid.uuid4()])).status_code == 404


def test_a_document_of_another_schema_is_an_error_page_with_a_remedy(run):
    run.result.document = {**run.result.document, "from_the_future": True}
    run.result.save()
    answer = reader(run).get(address(run))
    assert answer.status_code == 500
    assert "another version of Fuseworks" in answer.content.decode()
