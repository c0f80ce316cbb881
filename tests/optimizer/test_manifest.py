"""`python -m optimizer manifest`: all that registered, with schemas, and nothing but JSON on standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    command = [sys.executable, "-m", "optimizer", "manifest", "--target", "cuda:sm_90"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


def files(*parts: str) -> set[str]:
    return {path.stem for path in ROOT.joinpath(*parts).glob("*.py")} - {"__init__", "base"}


def test_every_pass_kernel_backend_and_rule_is_in_it(manifest: dict[str, Any]) -> None:
    assert set(names(manifest["passes"])) == files("optimizer", "optimizing", "passes")
    assert set(names(manifest["onnx_passes"])) == files("optimizer", "optimizing", "onnx_passes")
    assert set(names(manifest["step_passes"])) == files("optimizer", "optimizing", "step_passes")
    assert set(names(manifest["kernels"])) == files("kernels", "ops")
    assert {name.replace("-", "_") for name in names(manifest["backends"])} == files(
        "optimizer", "compiling", "backends"
    )
    assert set(names(manifest["rules"])) == files("optimizer", "diagnosing", "rules")
    assert all(rule["summary"] for rule in manifest["rules"])


def test_kernels_come_with_their_cost_and_what_they_were_compiled_for(manifest: dict[str, Any]) -> None:
    norm = next(one for one in manifest["kernels"] if one["name"] == "rms_norm")
    assert norm["cost"][0]["bytes"] > 0
    assert {one["target"] for one in norm["resources"]} == set(manifest["kernels_compiled_for"])
    assert manifest["kernels_compiled_for"]["cuda:sm_90"] == "NVIDIA H100 SXM 80 GB"


def test_it_says_for_which_gpus_a_model_can_be_predicted(manifest: dict[str, Any]) -> None:
    assert manifest["predicts"] == ["cuda:sm_80", "cuda:sm_90", "cuda:sm_100"]


def test_options_come_with_their_schema_and_description(manifest: dict[str, Any]) -> None:
    merge = next(one for one in manifest["passes"] if one["name"] == "merge_embedding_tables")
    assert merge["options_schema"]["properties"]["max_bytes"]["description"] == "size of one merged table, at most"
    assert merge["options_schema"]["additionalProperties"] is False


def test_passes_are_in_the_order_in_which_they_are_applied(manifest: dict[str, Any]) -> None:
    orders = [one["order"] for one in manifest["passes"]]
    assert orders == sorted(orders)


def test_a_backend_that_cannot_be_used_for_the_target_says_why(manifest: dict[str, Any]) -> None:
    reasons = {one["name"]: one["unavailable"] for one in manifest["backends"]}
    assert "used on the CPU only" in reasons["openvino"]


def test_the_machine_is_described(manifest: dict[str, Any]) -> None:
    assert manifest["target"] == "cuda:sm_90"
    assert manifest["libraries"]["torch"] == manifest["machine"]["libraries"]["torch"]
    processor = manifest["devices"][0]
    assert processor["target"] == "cpu" and processor["cores"] >= 1 and processor["memory_bytes"] > 1 << 20
