"""What the API's description says of all endpoints alike: how an error looks, and schemas that the optimizer wrote."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from fuseworks.core.problems import CONTENT_TYPE

ERROR: dict[str, Any] = {
    "type": "object",
    "description": "Why a request was refused or failed (RFC 9457). Some carry more, as `version` where the same bytes "
    "are a version already.",
    "properties": {
        "type": {"type": "string", "description": "urn:fuseworks:error: and the id"},
        "id": {
            "type": "string",
            "description": "stable, to be matched by programs: app, guilty side (usage, user, ours), what",
        },
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what is wrong"},
        "remedy": {"type": "string", "description": "what to do about it"},
        "place": {"type": ["string", "null"], "description": "the field or header that is meant"},
        "fields": {"type": "object", "additionalProperties": {}, "description": "by field, what is wrong with it"},
    },
    "required": ["type", "id", "title", "status", "detail", "remedy", "place"],
}


def errors_are_problems(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A hook of drf-spectacular: every operation's answer but the ones that it names."""
    schemas = result["components"]["schemas"]
    schemas["Error"] = ERROR
    result["components"]["schemas"] = dict(sorted(schemas.items()))
    told = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Error"}}}
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"]["default"] = {"content": told, "description": "Refused, or failed"}
    return result


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a document of the optimizer's, its parts put in where they are named."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})

    def whole(node: Any) -> Any:
        if isinstance(node, list):
            return [whole(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return whole({**parts[node["$ref"].rpartition("/")[2]], **{k: v for k, v in node.items() if k != "$ref"}})
        # a title is the field's name over again
        return {name: whole(value) for name, value in node.items() if not (name == "title" and isinstance(value, str))}

    found: dict[str, Any] = whole(schema)
    return found
