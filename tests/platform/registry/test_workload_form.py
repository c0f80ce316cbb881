"""The workload's form: what it fills in, what it makes of what was typed, and where its messages stand."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from fuseworks.registry.services.workloads import workload_document, workload_spec
from fuseworks.registry.workload_form import WorkloadForm

DOCUMENT = workload_document(
    workload_spec(
        {
            "inputs": [
                {"name": "dense", "dtype": "float32", "shape": ["batch", 13], "values": {"normal": [0, 2]}},
                {"name": "ids", "dtype": "int64", "shape": ["batch", 2], "values": {"zipf": 1.1, "below": [10, 20]}},
                {"name": "flag", "dtype": "bool", "shape": []},
            ],
            "dims": {"batch": {"serve": [256, 1024], "min": 1, "max": 2048}},
            "samples": "samples.safetensors",
            "contracts": [{"same_over_batch": ["ids", "flag"]}],
            "limits": {"latency_ms": 2.5},
            "precisions": ["float32", "bfloat16"],
        }
    )
)
FILLED = {
    "name": "serving",
    "mode": "inference",
    "inputs-0-kind": "normal",
    "inputs-0-parameters": "0.0, 2.0",
    "inputs-0-from": "",
    "inputs-0-below": "",
    "inputs-1-kind": "zipf",
    "inputs-1-parameters": "1.1",
    "inputs-1-from": "",
    "inputs-1-below": "10, 20",
    "inputs-2-kind": "default",
    "inputs-2-parameters": "",
    "inputs-2-from": "",
    "inputs-2-below": "",
    "dims-0-serve": "256, 1024",
    "dims-0-min": "1",
    "dims-0-max": "2048",
    "limits-latency_ms": "2.5",
    "limits-peak_memory_bytes": "",
    "limits-max_error": "",
    "contracts": "ids, flag",
}


def posted(precisions: tuple[str, ...] = ("float32", "bfloat16"), **typed: str) -> WorkloadForm:
    data = QueryDict(mutable=True)
    for name, value in {**FILLED, **{name.replace("__", "-"): value for name, value in typed.items()}}.items():
        data[name] = value
    data.setlist("precisions", list(precisions))
    return WorkloadForm.posted(DOCUMENT, data)


def test_a_workload_that_names_no_precision_allows_all_of_them() -> None:
    form = WorkloadForm.filled({**DOCUMENT, "precisions": None})
    assert form.precisions == [("float32", True), ("bfloat16", True), ("int8", True)]


def test_it_is_filled_from_the_document() -> None:
    form = WorkloadForm.filled(DOCUMENT)
    assert {name: value for name, value in form.typed.items() if not name.startswith("precisions")} == FILLED
    assert form.precisions == [("float32", True), ("bfloat16", True), ("int8", False)]
    assert [(row.name, row.dtype, row.shape) for row in form.inputs] == [
        ("dense", "float32", "batch, 13"),
        ("ids", "int64", "batch, 2"),
        ("flag", "bool", "single value"),
    ]


def test_sent_back_unchanged_it_means_the_same_document() -> None:
    assert posted().document() == DOCUMENT


def test_every_field_reaches_the_document() -> None:
    document = posted(
        precisions=("float32",),
        name="peak",
        mode="training",
        inputs__0__kind="uniform",
        inputs__0__parameters="-1, 1",
        inputs__1__kind="default",
        inputs__1__from="1",
        inputs__1__below="100; 200",
        inputs__2__kind="bernoulli",
        inputs__2__parameters="0.25",
        dims__0__serve="512",
        dims__0__min="2",
        dims__0__max="600",
        limits__latency_ms="",
        limits__peak_memory_bytes="1000",
        limits__max_error="1e-3",
        contracts="ids\n\nflag , dense",
    ).document()
    assert document is not None
    assert (document["name"], document["mode"], document["precisions"]) == ("peak", "training", ["float32"])
    assert [i.get("values") for i in document["inputs"]] == [
        {"uniform": [-1.0, 1.0], "from": 0},
        {"from": 1, "below": [100, 200]},
        {"bernoulli": 0.25, "from": 0},
    ]
    assert document["dims"] == {"batch": {"serve": [512], "min": 2, "max": 600}}
    assert document["limits"] == {"peak_memory_bytes": 1000, "max_error": 0.001}
    assert document["contracts"] == [{"same_over_batch": ["ids"]}, {"same_over_batch": ["flag", "dense"]}]
    # what has no field stays
    assert document["samples"] == "samples.safetensors"
    assert [i["shape"] for i in document["inputs"]] == [["batch", 13], ["batch", 2], []]


def test_one_bound_in_place_of_several_stays_a_list() -> None:
    document = posted(inputs__1__below="50").document()
    assert document is not None and document["inputs"][1]["values"]["below"] == [50]


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"inputs__0__kind": "cauchy"}, "inputs-0-kind"),
        ({"inputs__0__parameters": "0"}, "inputs-0-parameters"),
        ({"inputs__0__parameters": "zero, one"}, "inputs-0-parameters"),
        ({"inputs__1__parameters": "-1"}, "inputs-1-parameters"),
        ({"inputs__1__from": "half"}, "inputs-1-from"),
        ({"inputs__1__below": "1.5"}, "inputs-1-below"),
        ({"dims__0__serve": ""}, "dims-0-serve"),
        ({"dims__0__serve": "4096"}, "dims-0-serve"),
        ({"dims__0__min": "0"}, "dims-0-min"),
        ({"dims__0__max": "many"}, "dims-0-max"),
        ({"limits__latency_ms": "-1"}, "limits-latency_ms"),
        ({"limits__peak_memory_bytes": "1.5"}, "limits-peak_memory_bytes"),
        ({"limits__max_error": "nan"}, "limits-max_error"),
        ({"mode": "serving"}, "mode"),
        ({"precisions": ()}, "precisions"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_is_kept(typed: dict[str, Any], field: str) -> None:
    form = posted(**typed)
    assert form.document() is None
    assert list(form.errors) == [field]
    assert form.errors[field][0]
    for name, value in typed.items():
        if name != "precisions":
            assert form.typed[name.replace("__", "-")] == value


def test_several_mistakes_are_all_said_at_once() -> None:
    form = posted(inputs__0__parameters="x", dims__0__max="y", limits__latency_ms="z")
    assert form.document() is None
    assert set(form.errors) == {"inputs-0-parameters", "dims-0-max", "limits-latency_ms"}
