"""The kernel library in the catalog: what workers told, on pages and in the API, and the recipes that use a kernel."""

from __future__ import annotations

import copy
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from fuseworks.fleet.kernels import library, read_text
from fuseworks.fleet.manifests import LONG, in_short
from tests.platform import factories
from tests.platform.recipes.test_catalog import publish
from tests.platform.runs.steps import worker_row

pytestmark = pytest.mark.django_db

TEXT = """RMSNorm in one pass
over memory.

    normed = x / rms(x) * <weight>

Rounded once.

Source: Zhang and Sennrich, 2019
(arXiv 1910.07467).
Not for: more than the last dimension.
"""
ON_SM_90 = {
    "dtype": "float32",
    "target": "cuda:sm_90",
    "configuration": "ROWS=1 warps=8 stages=2",
    "launch": 0,
    "registers": 32,
    "spills": 0,
    "shared_bytes": 2048,
    "occupancy": 0.75,
    "limited_by": "threads",
    "vector_loads": 4,
    "loads": 5,
    "tensor_core_instructions": 0,
    "bound_us": 80.123,
    "bound_by": "memory",
    "exceptions": [],
}
REFUSED = {
    "dtype": "float32",
    "target": "cuda:sm_80",
    "configuration": "ROWS=1 warps=8 stages=2",
    "launch": 0,
    "exceptions": ["does not compile: no such <type>"],
}
SPILLS = {
    "kind": "spills",
    "cause": "register_limit",
    "launch": 0,
    "function": "_kernel",
    "reason": "Rows are <wide>.",
    "places": [
        {
            "dtype": "float32",
            "target": "cuda:sm_80",
            "configuration": f"ROWS={rows}",
            "facts": {"limit": 255, "warps": 8},
            "because": "it takes more than the 255 registers that a thread of 8 warps may have",
        }
        for rows in (1, 2)
    ],
}
MATRIX = {
    "date": "2026-01-02",
    "triton": "3.7.1",
    "torch": "2.13.0",
    "current": True,
    "rows": [
        {"dtype": "float32", "sample": "zeros", "edge": True, "outcomes": {"ROWS=1": 0.0}},
        {"dtype": "float32", "sample": "5x123", "edge": False, "outcomes": {"ROWS=1": 0.25, "ROWS=2": 0.5}},
        {
            "dtype": "bfloat16",
            "sample": "5x123",
            "edge": False,
            "outcomes": {"ROWS=1": "it is <wrong>", "ROWS=2": 0.125},
        },
    ],
}
ON_H200 = {
    "device": "NVIDIA H200",
    "target": "cuda:sm_90",
    "torch": "2.11.0",
    "triton": "3.6.0",
    "driver": "580.159.04",
    "date": "2026-01-03",
    "cases": 90,
    "right": 90,
    "wrong": [],
    "speeds": [
        {
            "dtype": "float32",
            "sample": "8192x4096",
            "best": "ROWS=2",
            "best_us": 70.0,
            "untuned_us": 75.5,
            "reference_us": 210.0,
            "bound_us": 56.0,
            "bound_by": "memory",
            "roofline_share": 0.8,
            "gigabytes_per_s": 3840.0,
            "teraflops_per_s": 1.9,
        }
    ],
}
NORM: dict[str, Any] = {
    "name": "rms_norm",
    "operation": "fuseworks::rms_norm",
    "schema": "(Tensor x, Tensor? weight, float eps) -> Tensor",
    "formula": TEXT,
    "dtypes": ["bfloat16", "float32"],
    "targets": ["cpu", "cuda:sm_80 and later", "rocm"],
    "patterns": ["aten.rms_norm", "x * rsqrt(mean(x ** 2) + eps)"],
    "configurations": ["ROWS=1 warps=8 stages=2", "ROWS=2 warps=8 stages=2"],
    "differentiable": True,
    "tolerances": {"float32": {"absolute": 2e-6, "relative": 3e-6}},
    "cost": [{"dtype": "float32", "sample": "8192x4096", "bytes": 268435456, "flops": 134000000}],
    "resources": [ON_SM_90, REFUSED],
    "exceptions": [SPILLS],
    "correctness": MATRIX,
    "measured": [ON_H200],
}
SOFTMAX = {"name": "jagged_softmax", "formula": "Softmax of rows of unequal length.", "patterns": []}
MANIFEST = {
    "format": 1,
    "kernels": [NORM, SOFTMAX],
    "kernels_compiled_for": {"cuda:sm_90": "NVIDIA H100 SXM 80 GB", "cuda:sm_80": "NVIDIA A100 SXM 80 GB"},
}
ONLY_NORM = [{"pass": "fuse_operations", "options": {"kernels": ["rms_norm"]}}, {"backend": "eager"}]
ONLY_ROPE = [{"pass": "fuse_operations", "options": {"kernels": ["rope"]}}, {"backend": "eager"}]
WHOLE_LIBRARY = [{"pass": "fuse_operations"}, {"backend": "eager"}]


@pytest.fixture
def browser() -> Client:
    return factories.client_for(factories.make_user())


def told(manifest: dict[str, Any] = MANIFEST, name: str = "host cpu", hours_ago: float = 0.0) -> None:
    worker_row(name, seen=timezone.now() - timedelta(hours=hours_ago), manifest=manifest)


def words(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content[:2000]
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


def test_without_a_worker_the_page_says_how_to_start_one(browser: Client) -> None:
    text = words(browser, "/catalog/kernels/")
    assert "No worker has told of its kernels yet" in text and "python -m workers" in text


def test_every_kernel_is_listed_with_what_it_takes(browser: Client) -> None:
    told()
    text = words(browser, "/catalog/kernels/")
    assert text.index("jagged_softmax") < text.index("rms_norm")
    assert "rms_norm RMSNorm in one pass over memory. bfloat16, float32 yes 2 2 1 of 2" in text
    assert "Softmax of rows of unequal length. no by name 0 –" in text


def test_a_search_looks_at_names_and_patterns(browser: Client) -> None:
    told()
    text = words(browser, "/catalog/kernels/?q=RSQRT")
    assert "rms_norm" in text and "jagged_softmax" not in text
    assert "No kernel fits" in words(browser, "/catalog/kernels/?q=convolution")


def test_a_kernels_page_has_formula_source_patterns_and_configurations(browser: Client) -> None:
    told()
    text = words(browser, "/catalog/kernels/rms_norm/")
    assert "normed = x / rms(x) * &lt;weight&gt; Rounded once." in text
    assert "Source Zhang and Sennrich, 2019 (arXiv 1910.07467)." in text
    assert "Not for more than the last dimension." in text
    assert "x * rsqrt(mean(x ** 2) + eps)" in text
    assert "ROWS=1 warps=8 stages=2 runs untuned ROWS=2 warps=8 stages=2" in text
    assert "fuseworks::rms_norm(Tensor x, Tensor? weight, float eps) -&gt; Tensor" in text


def test_it_has_a_table_of_support_and_the_cost_model(browser: Client) -> None:
    told()
    text = words(browser, "/catalog/kernels/rms_norm/")
    assert "cpu cuda:sm_90 cuda:sm_80 bfloat16 – reference – – float32 2.00e-06 + 3.00e-06 × |reference|" in text
    assert "reference compiles does not run Targets: cpu, cuda:sm_80 and later, rocm." in text
    assert "float32 8192x4096 256 MiB 134 M" in text


def test_resources_are_called_predicted_and_exceptions_are_told(browser: Client) -> None:
    told()
    text = words(browser, "/catalog/kernels/rms_norm/")
    assert "Compiled ahead of time predicted, not measured" in text
    row = "cuda:sm_90 NVIDIA H100 SXM 80 GB float32 0 32 0 2.00 KiB 75.0 % threads 4 of 5 0 80.1 µs by memory –"
    assert row in text
    assert "does not compile: no such &lt;type&gt;" in text


def test_a_kernel_that_nobody_tells_of_is_not_found(browser: Client) -> None:
    told()
    assert browser.get("/catalog/kernels/winograd/").status_code == 404
    assert browser.get("/api/v1/kernels/winograd/").status_code == 404


def test_recipes_that_name_the_kernel_come_before_those_that_look_for_all(browser: Client) -> None:
    told()
    team = factories.make_team()
    publish(team, "company", name="whole-library", title="Whole library", steps=WHOLE_LIBRARY)
    publish(team, "company", name="only-norm", title="Only the norm", steps=ONLY_NORM)
    publish(team, "company", name="only-rope", title="Only RoPE", steps=ONLY_ROPE)
    publish(team, "company", name="no-fusion", title="No fusion")
    reader = factories.client_for(factories.make_member(factories.make_team(), "viewer"))
    text = words(reader, "/catalog/kernels/rms_norm/")
    assert "Only the norm 1.0.0 names this kernel Whole library 1.0.0 looks for every kernel of the library" in text
    assert "Only RoPE" not in text and "No fusion" not in text


def test_a_recipe_that_the_reader_may_not_see_is_not_told(browser: Client) -> None:
    told()
    publish(factories.make_team(), "team", name="only-norm", title="Only the norm", steps=ONLY_NORM)
    assert "Only the norm" not in words(browser, "/catalog/kernels/rms_norm/")
    assert "No published recipe that you may see fuses by it." in words(browser, "/catalog/kernels/rms_norm/")
    assert browser.get("/api/v1/kernels/rms_norm/").json()["recipes"] == []


def test_the_api_lists_the_library_and_tells_one_whole() -> None:
    told()
    team = factories.make_team()
    version = publish(team, "team", name="only-norm", title="Only the norm", steps=ONLY_NORM)
    api = factories.api_for(factories.make_member(team, "viewer"))
    listed = api.get("/api/v1/kernels/").json()
    assert [one["name"] for one in listed] == ["jagged_softmax", "rms_norm"] and "compiled" not in listed[1]
    found = api.get("/api/v1/kernels/rms_norm/").json()
    assert found["kernel"]["formula"] == "    normed = x / rms(x) * <weight>\n\nRounded once."
    assert found["kernel"]["costs"][0]["bytes"] == 268435456
    on_sm_90, refused = found["kernel"]["compiled"]
    assert (on_sm_90["registers"], on_sm_90["device"]) == (32, "NVIDIA H100 SXM 80 GB")
    assert (refused["registers"], refused["exceptions"]) == (None, ["does not compile: no such <type>"])
    assert found["recipes"] == [
        {"recipe": str(version.recipe_id), "version": str(version.pk), "title": "Only the norm", "names_it": True}
    ]


def test_the_worker_that_started_last_tells_the_library() -> None:
    told({"kernels": [{"name": "old"}]}, "a", hours_ago=3)
    told({"kernels": [{"name": "new"}]}, "b", hours_ago=1)
    told({"kernels": []}, "c")  # another version, which has none to tell of
    assert [kernel.name for kernel in library()] == ["new"]


@pytest.mark.parametrize("odd", [{}, {"kernels": 3}, {"kernels": {"name": "a"}}, {"kernels": [1, {"name": 7}]}])
def test_a_library_that_cannot_be_understood_is_none(odd: dict[str, Any]) -> None:
    told(odd)
    assert library() == []


def test_what_of_a_kernel_cannot_be_understood_is_left_out(browser: Client) -> None:
    odd = {
        "name": "odd",
        "formula": 3,
        "dtypes": "float32",
        "tolerances": [],
        "cost": [7],
        "resources": [{"loads": "a"}],
    }
    told({"kernels": [odd]})
    (kernel,) = library()
    assert (kernel.summary, kernel.dtypes, kernel.tolerances, kernel.costs) == ("", [], [], [])
    assert kernel.compiled[0].loads is None
    assert "odd" in words(browser, "/catalog/kernels/odd/")


def test_a_text_is_taken_apart_into_summary_formula_source_and_what_it_is_not_for() -> None:
    assert read_text("Only this.") == ("Only this.", "", "", "")
    assert read_text("A.\n\nSources: b;\nc.") == ("A.", "", "b; c.", "")


def test_the_workers_list_leaves_out_what_makes_a_manifest_long() -> None:
    told(copy.deepcopy(MANIFEST))
    api = factories.api_for(factories.make_user())
    (worker,) = api.get("/api/v1/workers/").json()["workers"]
    assert worker["manifest"]["kernels"][0] == {k: v for k, v in NORM.items() if k not in LONG}
    assert in_short({"kernels": 3}) == {"kernels": 3}
