"""A diagnosis as SARIF 2.1.0 (OASIS), which code hosts show beside the lines that it names.

A finding with a line of the user's code has a physical location; one without has a logical one (a module, a trace).
Levels go by severity; fingerprints leave lines and figures out, so that a finding stays the same one over commits.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.diagnosing.exporting import places, rules
from optimizer.diagnosing.exporting.figures import plain
from optimizer.diagnosing.exporting.markdown_text import text
from optimizer.result import Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "fuseworksFinding/v1"
ROOT = "%SRCROOT%"
LEVELS = {"high": "error", "medium": "warning", "low": "note", "info": "none"}
# of findings that are no matter of security, as code hosts sort them
PROBLEM_SEVERITY = {"high": "error", "medium": "warning", "low": "recommendation", "info": "recommendation"}
SAME = ("pass", "op", "module")  # of the evidence: what tells two findings of one rule apart
RELATED = 20

Json = dict[str, Any]


def write(answer: Diagnosis, folder: str = "") -> str:
    return json.dumps(document(answer, folder), indent=2, ensure_ascii=False)


def document(answer: Diagnosis, folder: str = "") -> Json:
    ids = list(dict.fromkeys(finding.rule for finding in answer.findings))
    run: Json = {
        "tool": {"driver": {**_driver(), "rules": [_rule(rule, answer.findings) for rule in ids]}},
        "automationDetails": {"id": f"fuseworks/diagnose/{quote(_name(answer), safe='')}/"},
        "invocations": [_invocation(answer)],
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "utf16CodeUnits",
        "results": _results(answer, ids, folder),
        "properties": {"summary": plain(answer.summary), "facts": answer.facts},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _name(answer: Diagnosis) -> str:
    return plain(answer.of[0]) if answer.of else "unnamed"


def _driver() -> Json:
    try:
        return {"name": "Fuseworks", "version": importlib.metadata.version("fuseworks")}
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        return {"name": "Fuseworks"}


def _rule(rule: str, findings: Sequence[Finding]) -> Json:
    """Its help is what its findings here say: from where on, and the remedy."""
    mine = [finding for finding in findings if finding.rule == rule]
    steps = list(dict.fromkeys(plain(step) for finding in mine for step in (finding.steps or [finding.remedy]) if step))
    threshold = next((plain(finding.threshold) for finding in mine if finding.threshold), "")
    about = rules.description(rule) or rules.sentence(rule)
    found_from = [f"Found from where on: {threshold}."] if threshold else []
    remedy = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    worst = min((finding.severity for finding in mine), key=list(LEVELS).index)
    return {
        "id": rule,
        "name": "".join(word.capitalize() for word in rule.split("_")),
        "shortDescription": {"text": rules.sentence(rule)},
        "fullDescription": {"text": about},
        "help": {
            "text": "\n".join([about, *found_from, *remedy]),
            "markdown": "\n\n".join([text(about), *map(text, found_from), *map(text, remedy)]),
        },
        "defaultConfiguration": {"level": LEVELS[worst]},
        "properties": {"tags": ["performance"], "problem.severity": PROBLEM_SEVERITY[worst]},
    }


def _invocation(answer: Diagnosis) -> Json:
    problem = answer.problem
    if problem is None:
        return {"executionSuccessful": True}
    words = (problem.message, f"({problem.place})" if problem.place else "", problem.remedy)
    told = {"level": "error", "message": {"text": _text(" ".join(filter(None, words)))}}
    told["descriptor"] = {"id": problem.id}
    return {"executionSuccessful": False, "toolExecutionNotifications": [told]}


def _results(answer: Diagnosis, ids: Sequence[str], folder: str) -> list[Json]:
    seen: Counter[str] = Counter()
    return [_result(answer, finding, ids.index(finding.rule), folder, seen) for finding in answer.findings]


def _result(answer: Diagnosis, finding: Finding, index: int, folder: str, seen: Counter[str]) -> Json:
    known = places.lines(finding)
    physical = [{"physicalLocation": _physical(answer, line, folder)} for line in known]
    logical = _logical(answer, finding)
    first: Json = dict(physical[0]) if physical else {}
    if logical is not None or not physical:
        first["logicalLocations"] = [logical or {"name": _name(answer), "kind": "resource"}]
    found: Json = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "kind": "informational" if finding.severity == "info" else "fail",
        "message": {"text": _text(_told(finding))},
        "locations": [first],
        "partialFingerprints": {FINGERPRINT: _fingerprint(finding, known, seen)},
        "properties": _properties(finding),
    }
    if len(physical) > 1:
        found["relatedLocations"] = [{"id": at, **one} for at, one in enumerate(physical[1 : RELATED + 1], 1)]
    if finding.counted_share is not None:
        found["rank"] = round(min(100.0, max(0.0, 100 * finding.counted_share)), 2)
    return found


def _physical(answer: Diagnosis, line: places.Line, folder: str) -> Json:
    """Below `folder` lies what was given by its path; what else a trace or an archive names is told as it is."""
    file = PurePosixPath(line.file.lstrip("/"))
    path = PurePosixPath(folder) / file if folder and str(file) in answer.of else file
    found: Json = {"artifactLocation": {"uri": quote(str(path)), "uriBaseId": ROOT}}
    return {**found, "region": {"startLine": line.line}} if line.line else found


def _logical(answer: Diagnosis, finding: Finding) -> Json | None:
    found = places.named(finding)
    if found is None:
        return None
    name, kind = found
    return {"name": name, "fullyQualifiedName": f"{_name(answer)}::{name}", "kind": kind}


def _told(finding: Finding) -> str:
    parts = [f"{finding.title}."]
    if finding.cost_share is not None:
        parts.append(f"It costs {finding.cost_share:.1%} of the time.")
    if finding.gain is not None:
        low, high = finding.gain.low, finding.gain.high
        parts.append(f"Mended: {low:.2f} to {high:.2f} times as fast (predicted: {finding.gain.model}).")
    return " ".join([*parts, finding.remedy])


def _text(message: str) -> str:
    """Without what SARIF would read as a link."""
    return plain(message).replace("](", "] (").strip()


def _properties(finding: Finding) -> Json:
    found: Mapping[str, Any] = {
        "severity": finding.severity,
        "evidence": finding.evidence,
        "cost_ms": finding.cost_ms,
        "cost_share": finding.cost_share,
        "counted_share": finding.counted_share,
        "gain": finding.gain.model_dump() if finding.gain is not None else None,
        "threshold": finding.threshold,
        "steps": finding.steps,
    }
    return {key: value for key, value in found.items() if value not in (None, "", [], {})}


def _fingerprint(finding: Finding, known: Sequence[places.Line], seen: Counter[str]) -> str:
    same = [f"{key}={finding.evidence[key]}" for key in SAME if finding.evidence.get(key)]
    identity = "\n".join([finding.rule, *sorted({line.file for line in known}), *same])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"
