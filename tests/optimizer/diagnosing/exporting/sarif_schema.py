"""What OASIS' schema of SARIF 2.1.0 asks of the objects that we write: required properties, names, and value sets.

Of each object those properties that we use; any other is refused, as the schema refuses what it does not name.
"""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string", "minLength": 1}
BAG = {
    "type": "object",
    "properties": {"tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}},
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**properties, "properties": BAG},
    }


def _list(of: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": of, "minItems": least}


MESSAGE = _object(("text",), text=TEXT, markdown=TEXT)  # of a result: `text` or `id`
MULTIFORMAT = _object(("text",), text=TEXT, markdown=TEXT)
ARTIFACT = _object(uri={"type": "string", "format": "uri-reference"}, uriBaseId=TEXT, description=MESSAGE)
REGION = _object(("startLine",), startLine={"type": "integer", "minimum": 1})
PHYSICAL = _object(("artifactLocation",), artifactLocation=ARTIFACT, region=REGION)
LOGICAL = _object(name=TEXT, fullyQualifiedName=TEXT, kind=TEXT)
LOCATION = _object(
    id={"type": "integer", "minimum": -1}, physicalLocation=PHYSICAL, logicalLocations=_list(LOGICAL), message=MESSAGE
)
RULE = _object(
    ("id",),
    id=TEXT,
    name=TEXT,
    shortDescription=MULTIFORMAT,
    fullDescription=MULTIFORMAT,
    help=MULTIFORMAT,
    defaultConfiguration=_object(level=LEVEL),
)
RESULT = _object(
    ("message",),
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    level=LEVEL,
    message=MESSAGE,
    locations=_list(LOCATION),
    relatedLocations=_list(LOCATION),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    rank={"type": "number", "minimum": -1, "maximum": 100},
)
NOTIFICATION = _object(("message",), message=MESSAGE, level=LEVEL, descriptor=_object(id=TEXT))
INVOCATION = _object(
    ("executionSuccessful",),
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=_list(NOTIFICATION),
)
RUN = _object(
    ("tool",),
    tool=_object(("driver",), driver=_object(("name",), name=TEXT, version=TEXT, rules=_list(RULE))),
    automationDetails=_object(id=TEXT),
    invocations=_list(INVOCATION),
    originalUriBaseIds={"type": "object", "additionalProperties": ARTIFACT},
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=_list(RESULT),
)
SARIF: dict[str, Any] = _object(
    ("version", "runs"),
    **{"$schema": {"type": "string", "format": "uri"}, "version": {"enum": ["2.1.0"]}, "runs": _list(RUN)},
)
