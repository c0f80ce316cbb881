"""Each rule fires on its cause, with the evidence, and stays silent otherwise."""

import pytest

from optimizer.diagnosing.base import RULES, Evidence, diagnose
from optimizer.result import Operation, Profile, Rewrite, Site


def profile(operations=(), *, total_ms=10.0, faults=None):
    return Profile(operations=list(operations), total_ms=total_ms, page_faults_per_call=faults)


def evidence(**changes):
    return Evidence(**{"profile": profile(), "rewrites": [], "dynamic_batch": True, **changes})


def found(rule, **changes):
    return list(RULES.get(rule).check(evidence(**changes)))


def test_a_quiet_run_has_no_findings():
    assert diagnose(evidence()) == []


@pytest.mark.parametrize("faults", [None, 0, 63])
def test_few_page_faults_are_no_finding(faults):
    assert found("page_faults", profile=profile(faults=faults)) == []


def test_page_faults_are_costed_at_half_a_microsecond_each():
    (finding,) = found("page_faults", profile=profile(faults=4000, total_ms=10.0))
    assert finding.evidence["predicted_cost_ms"] == 2.0
    assert finding.severity == "high"
    assert "4,000" in finding.title


def test_page_faults_that_cost_little_are_medium():
    (finding,) = found("page_faults", profile=profile(faults=100, total_ms=10.0))
    assert finding.severity == "medium"


def test_the_dominant_operation_is_added_up_over_its_calls_and_named_with_its_line():
    rows = [
        Operation(op="linear", calls=1, self_ms=2.0, share=0.2, source="model.py:7"),
        Operation(op="linear", calls=2, self_ms=3.0, share=0.3, source="model.py:9", attainable_share=0.4),
        Operation(op="relu", calls=1, self_ms=1.0, share=0.1),
    ]
    (finding,) = found("dominant_operation", profile=profile(rows))
    assert finding.evidence["share"] == 0.5
    assert finding.evidence["calls"] == 3
    assert finding.evidence["attainable_share"] == 0.4
    assert "model.py:9" in finding.title


def test_a_rewrite_that_applied_is_a_finding_but_tidying_is_not():
    def applied(name):
        sites = [Site(node="linear", source="model.py:3", reason="4 blocks split")]
        return Rewrite(pass_=name, applied=sites, nodes_before=3, nodes_after=2, seconds=0.0)

    (finding,) = found("rewritable_structure", rewrites=[applied("split_target_attention"), applied("remove_noops")])
    assert finding.evidence == {"pass": "split_target_attention", "sites": 1, "sources": ["model.py:3"]}


def test_a_static_batch_is_said():
    (finding,) = found("baked_batch", dynamic_batch=False)
    assert finding.severity == "low"


def test_findings_come_most_severe_first():
    rows = [Operation(op="linear", calls=1, self_ms=9.0, share=0.9)]
    severities = [f.severity for f in diagnose(evidence(profile=profile(rows, faults=4000), dynamic_batch=False))]
    assert severities == ["high", "low", "info"]
