"""What a run's pages and the API show of a prediction, and that they never call it measured."""

from __future__ import annotations

import html

import pytest
from django.urls import reverse

from fuseworks.runs.models import Run
from tests.platform.factories import api_for, make_member
from tests.platform.results.predictions import document
from tests.platform.results.support import document as measured
from tests.platform.results.support import finished_run
from tests.platform.results.test_comparison_page import address, reader, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return finished_run(document(), target="cuda:sm_90")


def test_the_page_is_headed_by_what_is_predicted_and_says_that_nothing_was_measured(run):
    page = text(reader(run), address(run))
    assert "Predicted for NVIDIA H100 SXM 80 GB: nothing was measured" in page
    assert "predicted, not measured" in page
    assert "Nothing was judged in this run. What was found" not in page


def test_both_graphs_and_their_difference_stand_below_each_other(run):
    page = text(reader(run), address(run))
    assert "as uploaded 0.250 ms 0.500 ms 41 3.00 MiB" in page
    assert "after our rewrites 0.125 ms 0.375 ms 17 2.00 MiB" in page
    assert "difference −0.125 ms −0.125 ms −24 −1.00 MiB" in page


def test_a_kernel_stands_with_its_resources_its_bound_and_where_it_comes_from(run):
    page = text(reader(run), address(run))
    assert "relu model.py:7 2 24 3 2.00 KiB 75.0 % registers 4 of 5 1.25 µs by memory" in page
    assert "def triton_relu(): ..." in page and "XBLOCK=1024 warps=4 stages=1" in page
    assert "one of 2 that tuning would choose from" in page


def test_the_kernel_with_the_largest_bound_comes_first_and_ours_is_marked(run):
    page = text(reader(run), address(run))
    assert page.index("rms_norm of our library") < page.index("triton_relu") < page.index("triton_old")


def test_library_calls_have_shapes_and_a_bound_but_no_registers(run):
    page = text(reader(run), address(run))
    assert "aten.mm.out float32[512, 13] 1 3.00 KiB 2.00 M 4.01 µs by compute" in page


def test_the_formula_is_shown_with_what_it_takes_for_granted(run):
    page = html.unescape(text(reader(run), address(run)))
    assert "the sum of gap + max(shortest, bound / share)" in page
    assert "gap_us = 5" in page and "extern_share = 0.75" in page and "NVIDIA's white paper" in page


def test_where_no_rewrite_fits_there_is_one_graph_and_no_difference():
    run = finished_run(document(applied=()), target="cuda:sm_90")
    page = text(reader(run), address(run))
    assert "No rewrite of ours fits this graph." in page
    assert "after our rewrites" not in page and "Predicted kernels, as uploaded" in page


def test_a_measured_run_has_no_word_of_a_prediction():
    run = finished_run(measured("din"))
    assert "predicted, not measured" not in text(reader(run), address(run))


def test_the_runs_own_page_tells_the_range_and_leads_to_the_rest(run):
    page = text(reader(run), reverse("run", args=[run.pk]))
    assert "Predicted for NVIDIA H100 SXM 80 GB predicted, not measured" in page
    assert "0.125 ms to 0.375 ms a call in 17 launches. As uploaded 0.250 ms to 0.500 ms in 41." in page
    assert "What is predicted" in page and "Before and after" not in page


def test_how_to_ask_the_same_again_is_shown_as_api_and_as_a_command():
    run = finished_run(document(purpose="explain"), target="cuda:sm_90")
    page = html.unescape(text(reader(run), address(run)))
    assert '"purpose": "explain", "target": "cuda:sm_90"' in page
    assert "fuseworks explain din.py --target cuda:sm_90" in page


def test_where_nothing_was_measured_there_are_no_profiles_and_no_word_of_how(run):
    page = text(reader(run), address(run))
    assert "Operations, before and after" not in page and "How this was measured" not in page
    page = text(reader(run), address(finished_run(measured("din"), run.version)))
    assert "Operations, before and after" in page and "How this was measured" in page


def test_a_prediction_of_another_schema_does_not_break_the_runs_page(run):
    run.result.document["predicted"] = {"target": "cuda:sm_90"}
    run.result.save()
    assert "predicted, not measured" not in text(reader(run), reverse("run", args=[run.pk]))


def test_the_api_gives_the_sums_and_the_whole_prediction(run):
    found = api_for(make_member(run.team, "viewer")).get(reverse("api:run-result", args=[run.pk])).json()
    assert found["predicted"] == {
        "target": "cuda:sm_90",
        "device": "NVIDIA H100 SXM 80 GB",
        "sizes": {"batch": 512},
        "applied": ["fuse_operations"],
        "before": {"predicted_ms": [0.25, 0.5], "kernels_launched": 41, "bytes_moved": 3145728},
        "after": {"predicted_ms": [0.125, 0.375], "kernels_launched": 17, "bytes_moved": 2097152},
        "difference": {"predicted_ms": [-0.125, -0.125], "kernels_launched": -24, "bytes_moved": -1048576},
    }
    assert found["document"]["predicted"]["after"]["kernels"][0]["registers"] == 24
    assert found["headline"]["baseline_ms"] is None and found["headline"]["best_ms"] is None


def test_the_api_predicts_nothing_of_a_measured_run():
    run = finished_run(measured("din"))
    found = api_for(make_member(run.team, "viewer")).get(reverse("api:run-result", args=[run.pk])).json()
    assert found["predicted"] is None
