"""Each rule fires on its cause, with the evidence, and stays silent otherwise."""

import pytest

from optimizer.diagnosing.base import RULES, Evidence, diagnose
from optimizer.diagnosing.rules.rewritable_structure import RECOVERS, WRITTEN
from optimizer.optimizing.base import standard_order
from optimizer.optimizing.pass_targets import GPU_ONLY
from optimizer.optimizing.planner import TIDYING
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


@pytest.mark.parametrize(("faults", "severity"), [(400, "medium"), (100, "low")])  # 2 % and 0.5 % of 10 ms
def test_page_faults_are_as_severe_as_their_share_of_the_time(faults, severity):
    (finding,) = found("page_faults", profile=profile(faults=faults, total_ms=10.0))
    assert finding.severity == severity


def with_levers(**levers):
    return Profile(total_ms=10.0, unprofiled_ms=4.0, **levers)


@pytest.mark.parametrize("gain", [None, 0.97, 1.19])
def test_denormals_that_cost_little_or_were_not_timed_are_no_finding(gain):
    assert found("denormals", profile=with_levers(denormals_gain=gain)) == []


@pytest.mark.parametrize(("gain", "severity"), [(1.2, "medium"), (2.0, "high")])
def test_denormals_are_a_finding_with_what_they_were_measured_to_cost(gain, severity):
    (finding,) = found("denormals", profile=with_levers(denormals_gain=gain))
    assert (finding.severity, finding.evidence) == (severity, {"time_kept_over_flushed": gain})
    assert f"{gain:.1f} times as long" in finding.title


@pytest.mark.parametrize("used_ms", [None, 0.0, 0.29])
def test_threads_that_sleep_after_a_call_are_no_finding(used_ms):
    assert found("spinning_threads", profile=with_levers(idle_cpu_ms_per_call=used_ms)) == []


def test_spinning_is_a_finding_from_a_twentieth_of_a_call_on():
    assert found("spinning_threads", profile=Profile(total_ms=1, unprofiled_ms=20.0, idle_cpu_ms_per_call=0.9)) == []
    (finding,) = found("spinning_threads", profile=with_levers(idle_cpu_ms_per_call=1.5))
    assert finding.evidence == {"idle_cpu_ms_per_call": 1.5, "call_ms": 4.0}
    assert finding.severity == "low"


@pytest.mark.parametrize("times_ms", [{}, {2: 4.0}, {1: 4.2, 2: 4.0}, {1: 9.0, 2: 5.0, 4: 3.0}])
def test_threads_that_each_gain_are_no_finding(times_ms):
    assert found("idle_threads", profile=with_levers(threads_ms=times_ms)) == []


def test_the_fewer_threads_that_are_as_fast_are_named_the_fastest_of_them():
    (finding,) = found("idle_threads", profile=with_levers(threads_ms={1: 4.05, 2: 3.9, 4: 4.0}))
    assert finding.title == "2 threads are as fast as 4 in the original"
    assert finding.evidence == {"call_ms_by_threads": {1: 4.05, 2: 3.9, 4: 4.0}}
    (single,) = found("idle_threads", profile=with_levers(threads_ms={1: 3.0, 2: 4.0}))
    assert single.title == "1 thread is as fast as 2 in the original"


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
    what = "A linear layer over the joined [q, k, q-k, q*k] of target attention"
    assert finding.title == f"{what}, once, at model.py:3"


def attention(*sources):
    sites = [Site(node=f"bmm_{i}", source=source, reason="scale 0.125") for i, source in enumerate(sources)]
    return Rewrite(pass_="fuse_attention", applied=sites, nodes_before=9, nodes_after=5, seconds=0.0)


@pytest.mark.parametrize(("share", "severity"), [(0.01, "medium"), (0.0004, "low")])
def test_a_rewrite_of_what_takes_no_time_is_no_medium_finding(share, severity):
    rows = [Operation(op="bmm", calls=1, self_ms=1.0, share=share, source="model.py:31")]
    (finding,) = found("rewritable_structure", profile=profile(rows), rewrites=[attention("model.py:31")])
    assert finding.severity == severity


def test_a_rewrite_is_told_in_one_sentence_with_its_lines_in_order_and_their_share_of_the_time():
    rows = [
        Operation(op="bmm", calls=1, self_ms=3.0, share=0.3, source="model.py:31"),
        Operation(op="softmax", calls=1, self_ms=1.0, share=0.125, source="model.py:9"),
        Operation(op="linear", calls=1, self_ms=4.0, share=0.4, source="model.py:10"),
    ]
    sources = ["model.py:31", "model.py:9", "model.py:31", "model.py:100", "model.py:200", "model.py:300"]
    (finding,) = found("rewritable_structure", rewrites=[attention(*sources)], profile=profile(rows))
    lines = "model.py:9, model.py:31, model.py:100 and 2 more"
    assert finding.title == f"Attention written out by hand, 6 times, at {lines}; 42% of the time goes there"
    assert finding.evidence["share_of_time"] == 0.425
    assert "bmm_" not in finding.title, "names of nodes are not the user's words"


@pytest.mark.parametrize("rows", [None, [], [Operation(op="bmm", calls=1, self_ms=1.0, share=0.1)]])
def test_no_share_is_told_where_the_profile_knows_no_lines(rows):
    known = None if rows is None else profile(rows)
    (finding,) = found("rewritable_structure", rewrites=[attention(None, None)], profile=known)
    assert finding.title == "Attention written out by hand, 2 times"
    assert "share_of_time" not in finding.evidence


def test_every_pass_that_is_no_tidying_has_words_for_what_it_finds():
    telling = {one.name for one in standard_order()} - TIDYING
    assert telling and set(WRITTEN) == telling


def test_a_static_batch_is_said():
    (finding,) = found("baked_batch", dynamic_batch=False)
    assert finding.severity == "low"


def test_findings_come_most_severe_first():
    rows = [Operation(op="linear", calls=1, self_ms=9.0, share=0.9)]
    severities = [f.severity for f in diagnose(evidence(profile=profile(rows, faults=4000), dynamic_batch=False))]
    assert severities == ["high", "low", "info"]


# ---- what mending it gives, and by which step ------------------------------------------------------------------------


def test_settings_that_a_plan_can_have_are_named_with_their_gain():
    (faults,) = found("page_faults", profile=Profile(total_ms=10.0, unprofiled_ms=8.0, page_faults_per_call=4000))
    assert faults.mended_by == [{"runtime": {"allocator": "glibc-no-trim", "huge_pages": True}}]
    # 4,000 of 0.25 to 1.5 us: 1 to 6 of the 8 ms of a call without the profiler
    assert (faults.gain.low, faults.gain.high) == (round(8 / 7, 4), 4.0)
    (threads,) = found("idle_threads", profile=with_levers(threads_ms={1: 4.0, 2: 5.0}))
    assert threads.mended_by == [{"runtime": {"threads": 1}}]
    assert (threads.gain.low, threads.gain.high) == (round(1.25 / 1.05, 4), round(1.25 * 1.05, 4))
    (denormals,) = found("denormals", profile=with_levers(denormals_gain=3.0))
    assert denormals.mended_by == [{"runtime": {"denormals": "flushed"}}]
    assert (denormals.gain.low, denormals.gain.high) == (2.0, 3.0)


def test_faults_beyond_all_of_the_time_are_predicted_to_take_most_of_it():
    (faults,) = found("page_faults", profile=Profile(total_ms=1.0, unprofiled_ms=1.0, page_faults_per_call=4000))
    assert (faults.gain.high, faults.cost_share) == (20.0, 1.0)


def test_every_pass_that_a_plan_for_a_processor_may_have_predicts_its_gain():
    told = {one.name for one in standard_order()} - TIDYING - GPU_ONLY
    assert told == set(RECOVERS)
    assert all(0 <= low <= high < 1 for low, high in RECOVERS.values())
