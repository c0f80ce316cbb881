"""What a kernel's page and the API tell beside its figures: the correctness matrix, why exceptions are there, what was
measured."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from fuseworks.fleet.kernel_evidence import matrix_of, measured_of
from fuseworks.fleet.kernel_exceptions import BECAUSE, TITLES, exceptions_of
from fuseworks.fleet.kernels import library
from kernels.aot import causes
from tests.platform import factories
from tests.platform.recipes.test_kernels import MANIFEST, MATRIX, ON_H200, SPILLS, told, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser() -> Client:
    return factories.client_for(factories.make_user())


def changed(**fields: Any) -> dict[str, Any]:
    manifest = copy.deepcopy(MANIFEST)
    manifest["kernels"][0] |= fields
    return manifest


def test_the_matrix_has_a_row_for_each_sample_and_a_column_for_each_dtype(browser: Client) -> None:
    told()
    text = words(browser, "/catalog/kernels/rms_norm/")
    assert "4 of 5 cases right under Triton's interpreter: triton 3.7.1, torch 2.13.0, 2026-01-02." in text
    assert "Arguments bfloat16 float32 5x123 1 of 2 ROWS=1 it is &lt;wrong&gt; ROWS=2 12.5 %" in text
    assert "2 of 2 ROWS=1 25.0 % ROWS=2 50.0 % zeros edge – 1 of 1 ROWS=1 0.0 %" in text
    assert "changed since" not in text


def test_results_of_an_older_kernel_are_told_as_such(browser: Client) -> None:
    told(changed(correctness={**MATRIX, "current": False}))
    assert "The kernel was changed since: these are the older one's." in words(browser, "/catalog/kernels/rms_norm/")


def test_a_kernel_without_kept_results_says_how_to_make_them(browser: Client) -> None:
    told(changed(correctness=None))
    assert "The worker tells of no results for it. make correctness writes them." in words(
        browser, "/catalog/kernels/rms_norm/"
    )


def test_an_exception_is_explained_with_its_figures_and_its_places(browser: Client) -> None:
    told()
    text = words(browser, "/catalog/kernels/rms_norm/")
    assert "Registers are spilled to memory Rows are &lt;wide&gt;." in text
    because = "it takes more than the 255 registers that a thread of 8 warps may have"
    assert f"{because} 2 places cuda:sm_80, float32, ROWS=1 cuda:sm_80, float32, ROWS=2" in text


def test_explanations_are_in_the_readers_language() -> None:
    (found,) = exceptions_of([SPILLS])
    with translation.override("zh-hans"):
        ((text, places),) = found.told
        assert "255" in text and "it takes more" not in text
        assert str(found.title) != "Registers are spilled to memory"
    assert len(places) == 2


def test_a_cause_that_this_site_does_not_know_is_told_in_the_workers_words() -> None:
    (unknown,) = exceptions_of([{**SPILLS, "cause": "moonlight"}])
    assert [text for text, _ in unknown.told] == [SPILLS["places"][0]["because"]]
    (without_facts,) = exceptions_of([{**SPILLS, "places": [{**SPILLS["places"][0], "facts": {}}]}])
    assert [text for text, _ in without_facts.told] == [SPILLS["places"][0]["because"]]


def test_every_cause_and_kind_of_the_compiler_has_a_text_of_this_site() -> None:
    assert set(BECAUSE) == set(causes.BECAUSE)
    assert set(TITLES) == set(causes.KINDS)
    for name, text in causes.BECAUSE.items():
        assert str(BECAUSE[name]).replace("%(", "{").replace(")s", "}") == text


def test_a_kernel_without_exceptions_says_so(browser: Client) -> None:
    told(changed(exceptions=[]))
    assert "None: in no configuration does it spill" in words(browser, "/catalog/kernels/rms_norm/")


def test_what_a_gpu_measured_is_told_with_its_conditions(browser: Client) -> None:
    told()
    text = words(browser, "/catalog/kernels/rms_norm/")
    assert "NVIDIA H200 cuda:sm_90, torch 2.11.0, triton 3.6.0, 2026-01-03 90 of 90 cases right" in text
    assert "float32 8192x4096 ROWS=2 70.0 µs 75.5 µs 210 µs 56.0 µs 80.0 %" in text


def test_without_a_gpu_the_page_says_that_none_has_run_it(browser: Client) -> None:
    told(changed(measured=[]))
    assert "None yet: no GPU has run it. make gpu-check does, on a machine with one." in words(
        browser, "/catalog/kernels/rms_norm/"
    )


def test_the_api_tells_all_three() -> None:
    told()
    found = factories.api_for(factories.make_user()).get("/api/v1/kernels/rms_norm/").json()["kernel"]
    matrix = found["correctness"]
    assert (matrix["cases"], matrix["right"], matrix["dtypes"]) == (5, 4, ["bfloat16", "float32"])
    assert [row["sample"] for row in matrix["rows"]] == ["5x123", "zeros"]
    assert matrix["rows"][1]["cells"][0] is None
    assert matrix["rows"][0]["cells"][0]["outcomes"][0] == {
        "configuration": "ROWS=1", "error_share": None, "fault": "it is <wrong>",
    }  # fmt: skip
    (explained,) = found["explained"]
    assert (explained["cause"], len(explained["places"])) == ("register_limit", 2)
    assert found["measured"][0]["speeds"][0]["roofline_share"] == 0.8


@pytest.mark.parametrize("odd", [3, {}, {"rows": 7}, {"rows": [1, {"outcomes": 2}]}])
def test_a_matrix_that_cannot_be_understood_is_none_or_empty(odd: Any) -> None:
    found = matrix_of(odd)
    assert found is None or found.cases == 0


@pytest.mark.parametrize("odd", [3, {}, [1, {}, {"device": 4}]])
def test_measurements_that_cannot_be_understood_are_left_out(odd: Any) -> None:
    assert measured_of(odd) == []


def test_odd_parts_of_a_measurement_are_left_out(browser: Client) -> None:
    odd = {**ON_H200, "cases": "many", "wrong": "none", "speeds": [{"best_us": "fast"}]}
    told(changed(measured=[odd], exceptions=[{"places": "here"}]))
    (kernel,) = [one for one in library() if one.name == "rms_norm"]
    assert kernel.measured[0].cases is None and kernel.measured[0].speeds[0].best_us is None
    words(browser, "/catalog/kernels/rms_norm/")
