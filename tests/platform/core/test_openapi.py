"""docs/openapi.yaml tells whoever writes a pipeline what it needs; that it is up to date, `make check` looks after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fuseworks.core.openapi import schema_of
from optimizer.spec import Policy, Workload

DOCUMENT: dict[str, Any] = yaml.safe_load((Path(__file__).parents[3] / "docs" / "openapi.yaml").read_text())
OPERATIONS = {
    f"{method} {path.removeprefix('/api/v1/')}": operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
STORY = [
    "put uploads/{team}/{model_name}/{filename}",
    "post uploads/",
    "patch uploads/{upload_id}/",
    "post runs/",
    "get runs/{run_id}/",
    "get runs/{run_id}/events/",
    "get runs/{run_id}/result/",
    "get runs/{run_id}/artifacts/",
    "get runs/{run_id}/artifacts/{name}/",
    "post runs/{run_id}/recipe/",
    "post runs/{run_id}/cancel/",
    "post runs/{run_id}/retry/",
    "post recipe-versions/{version_id}/publish/",
    "post recipe-versions/{version_id}/apply/",
    "get recipe-versions/{version_id}/evidence/",
    "get gates/{run_id}/",
]
STARTS_SOMETHING = {
    "post runs/",
    "post runs/{run_id}/retry/",
    "post recipe-versions/{version_id}/apply/",
    "post uploads/",
}


@pytest.mark.parametrize("operation", STORY)
def test_each_step_of_the_story_is_described(operation: str) -> None:
    assert len(OPERATIONS[operation]["description"]) > 15


def test_every_operation_tells_how_its_errors_look() -> None:
    error = {"schema": {"$ref": "#/components/schemas/Error"}}
    assert len(OPERATIONS) > 50
    for operation in OPERATIONS.values():
        assert operation["responses"]["default"]["content"] == {"application/problem+json": error}
    assert {"id", "detail", "remedy", "place"} <= set(DOCUMENT["components"]["schemas"]["Error"]["required"])


def test_what_starts_something_takes_a_key_and_nothing_else_does() -> None:
    taking = {
        name: operation
        for name, operation in OPERATIONS.items()
        if any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", []))
    }
    assert set(taking) == STARTS_SOMETHING
    for operation in taking.values():
        assert {"200", "201"} <= set(operation["responses"])


@pytest.mark.parametrize("schema", ["NewRun", "Apply", "RunDetail"])
def test_a_policy_is_told_field_by_field(schema: str) -> None:
    policy = DOCUMENT["components"]["schemas"][schema]["properties"]["policy"]
    assert set(policy["properties"]) == set(Policy.model_fields)
    assert policy["properties"]["budget_s"]["default"] == 290.0
    assert policy["properties"]["precisions"]["items"]["enum"] == ["float32", "bfloat16", "int8"]


def test_the_parts_of_a_schema_stand_where_they_are_named() -> None:
    text = str(schema_of(Workload))
    assert "$ref" not in text and "$defs" not in text
    assert schema_of(Workload)["properties"]["inputs"]["items"]["properties"]["dtype"]
