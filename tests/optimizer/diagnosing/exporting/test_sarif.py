"""SARIF of a diagnosis: by OASIS' schema, with places that a code host can show, and the same finding kept the same."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from optimizer.diagnosing.base import RULES
from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.diagnosing.exporting import export
from optimizer.result import Finding
from tests.optimizer.diagnosing.exporting.answers import BOTTOM, BUSIEST, FAILED, LOOKUPS, WAITS, diagnosis
from tests.optimizer.diagnosing.exporting.sarif_schema import SARIF


def run_of(answer: Diagnosis, **more: Any) -> dict[str, Any]:
    document = json.loads(export(answer, "sarif", **more))
    jsonschema.Draft7Validator(SARIF, format_checker=jsonschema.FormatChecker()).validate(document)
    (run,) = document["runs"]
    return dict(run)


def results(*findings: Finding, **more: Any) -> list[dict[str, Any]]:
    return list(run_of(diagnosis(*findings), **more)["results"])


@pytest.mark.parametrize(
    "answer",
    [
        diagnosis(),
        diagnosis(LOOKUPS, BUSIEST, WAITS, BOTTOM),
        diagnosis(of=[], summary="", facts={}, notes=[], conditions=None),
        diagnosis(LOOKUPS, problem=FAILED),
    ],
)
def test_it_is_valid_by_the_schema(answer: Diagnosis) -> None:
    assert run_of(answer)["tool"]["driver"]["name"] == "Fuseworks"


def test_the_schema_here_refuses_what_is_not_sarif() -> None:
    document = json.loads(export(diagnosis(LOOKUPS), "sarif"))
    for breach in ({"version": "2.0.0"}, {"comment": "none"}, {"runs": [{"results": []}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, **breach}, SARIF)


def test_a_finding_with_a_line_has_its_file_and_line_and_the_others_beside_it() -> None:
    (found,) = results(LOOKUPS)
    physical = found["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "din.py", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 7}}
    assert [one["physicalLocation"]["region"]["startLine"] for one in found["relatedLocations"]] == [9]
    assert found["locations"][0]["logicalLocations"] == [
        {"name": "tables", "fullyQualifiedName": "din.py::tables", "kind": "module"}
    ]


def test_lines_of_a_trace_are_places_too() -> None:
    (found,) = results(WAITS)
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "train.py"
    assert found["locations"][0]["physicalLocation"]["region"] == {"startLine": 54}
    assert found["locations"][0]["logicalLocations"][0]["name"] == "rank1.json"


@pytest.mark.parametrize(("finding", "name", "kind"), [(BUSIEST, "linear", "function"), (BOTTOM, "din.py", "resource")])
def test_a_finding_without_a_line_has_a_logical_place(finding: Finding, name: str, kind: str) -> None:
    (place,) = results(finding)[0]["locations"]
    assert "physicalLocation" not in place
    assert (place["logicalLocations"][0]["name"], place["logicalLocations"][0]["kind"]) == (name, kind)


def test_a_module_that_was_given_by_its_path_is_found_in_the_repository() -> None:
    def uri(folder: str, source: str) -> str:
        finding = LOOKUPS.model_copy(update={"evidence": {"sources": [source]}})
        (found,) = results(finding, folder=folder)
        return str(found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])

    assert uri("models/ads", "din.py:7") == "models/ads/din.py"
    assert uri(".", "din.py:7") == "din.py"
    assert uri("models", "modeling_bert.py:7") == "modeling_bert.py", "no file of the upload"
    assert uri("my models", "din.py:7") == "my%20models/din.py"
    assert uri("", "/srv/app/train.py:7") == "srv/app/train.py", "never an absolute path"


def test_levels_go_by_severity_and_informational_findings_are_no_failures() -> None:
    told = [(one["level"], one["kind"]) for one in results(WAITS, LOOKUPS, BOTTOM, BUSIEST)]
    assert told == [("error", "fail"), ("warning", "fail"), ("note", "fail"), ("none", "informational")]


def test_each_rule_is_listed_once_with_a_help_that_holds_threshold_and_remedy() -> None:
    again = LOOKUPS.model_copy(update={"steps": ["Merge them.", "Or cut them."], "severity": "high"})
    run = run_of(diagnosis(LOOKUPS, BUSIEST, again))
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["many_embeddings", "dominant_operation"]
    assert [one["ruleIndex"] for one in run["results"]] == [0, 1, 0]
    many = rules[0]
    assert many["name"] == "ManyEmbeddings"
    assert many["shortDescription"]["text"] == "A lookup of its own for each of many embedding tables."
    assert many["help"]["text"].splitlines()[-4:] == [
        "Found from where on: more than 8 embedding lookups a call (TorchRec's README).",
        "1. Merge them.",
        "2. Or batch them.",
        "3. Or cut them.",
    ]
    assert many["defaultConfiguration"]["level"] == "error", "its worst here"


def test_every_rule_has_a_sentence_of_its_own() -> None:
    findings = [Finding(rule=rule.name, severity="low", title="t") for rule in RULES]
    rules = run_of(diagnosis(*findings))["tool"]["driver"]["rules"]
    assert len({rule["shortDescription"]["text"] for rule in rules}) == len(findings)
    assert all(rule["fullDescription"]["text"].startswith(rule["shortDescription"]["text"]) for rule in rules)


def test_a_rule_that_no_longer_exists_is_told_by_its_name() -> None:
    for name in ("gone_rule", "../base"):
        run = run_of(diagnosis(Finding(rule=name, severity="low", title="t")))
        assert run["tool"]["driver"]["rules"][0]["id"] == name
    assert "Gone rule." in json.dumps(run_of(diagnosis(Finding(rule="gone_rule", severity="low", title="t"))))


def test_a_finding_stays_the_same_when_its_line_and_its_figures_move() -> None:
    def print_of(**changes: Any) -> str:
        (found,) = results(LOOKUPS.model_copy(update=changes))
        return str(found["partialFingerprints"]["fuseworksFinding/v1"])

    moved = {"lookups": 13, "sources": ["din.py:8", "din.py:10"], "module": "tables"}
    assert print_of(title="13 lookups", evidence=moved, cost_share=0.2) == print_of()
    assert print_of(evidence={**moved, "sources": ["dlrm.py:8"]}) != print_of()
    assert print_of(evidence={**moved, "module": "other"}) != print_of()
    assert print_of(rule="cat_storms") != print_of()


def test_two_findings_alike_have_two_fingerprints() -> None:
    prints = [one["partialFingerprints"]["fuseworksFinding/v1"] for one in results(LOOKUPS, LOOKUPS)]
    assert prints[0].endswith(":1") and prints[1] == prints[0][:-1] + "2"


def test_what_it_costs_and_what_mending_gives_is_in_the_message_and_as_data() -> None:
    (found,) = results(LOOKUPS)
    text = found["message"]["text"]
    assert "It costs 25.0% of the time." in text and "1.05 to 1.20 times as fast" in text and "Merge them." in text
    assert found["properties"]["gain"] == {
        "low": 1.05,
        "high": 1.2,
        "model": "one lookup in place of tens",
        "confidence": None,
        "uncorrected": None,
    }
    assert found["rank"] == 12.5


def test_a_strangers_name_is_neither_a_link_nor_a_control_character() -> None:
    hostile = LOOKUPS.model_copy(update={"title": "\x1b[1m[free](https://example.org)", "steps": [], "remedy": ""})
    text = results(hostile)[0]["message"]["text"]
    assert "](" not in text and "\x1b" not in text


def test_a_model_that_failed_says_so_and_keeps_its_findings() -> None:
    run = run_of(diagnosis(LOOKUPS, problem=FAILED))
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    told = invocation["toolExecutionNotifications"][0]
    assert told["descriptor"]["id"] == "capturing:user:not-exportable"
    assert told["message"]["text"] == "The graph breaks. (din.py:12) Take the print out."
    assert len(run["results"]) == 1
