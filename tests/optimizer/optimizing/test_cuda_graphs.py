"""Recording kernels is proposed for a CUDA target whose profile shows launches, and for one shape only."""

from __future__ import annotations

import pytest

from optimizer.optimizing.cuda_graphs import launch_bound, refusal
from optimizer.optimizing.planner import Facts, Planner, has_passes
from optimizer.result import Operation, Profile, Rewrite, Site
from optimizer.spec import BackendStep, Policy, RuntimeSettings, dump_step

NAME = "inductor cuda_graphs=True"


def profile(*rows: tuple[int, float]) -> Profile:
    """`(calls, milliseconds of all of them)`."""
    total = sum(ms for _, ms in rows)
    operations = [Operation(op="aten.add", calls=calls, self_ms=ms, share=ms / total) for calls, ms in rows]
    return Profile(operations=operations, total_ms=total)


SHORT, LONG = (40, 0.8), (2, 0.6)  # 20 µs an operation, and 300


def planner(**changes):
    facts = {
        "format": "pt2",
        "baseline_backend": "eager",
        "backends": {"eager": None, "aot_inductor": None, "inductor": None, "openvino": "used on the CPU only"},
        "settings": RuntimeSettings(),
        "policy": Policy(),
        "bfloat16_refusal": None,
        "target": "cuda:sm_90",
        "launch_bound": launch_bound(profile(SHORT, LONG)),
    }
    rewrites = [Rewrite(pass_="split", applied=[Site(node="n", reason="r")], nodes_before=9, nodes_after=8, seconds=0)]
    return Planner(Facts(**{**facts, **changes}), rewrites)


def recorded(candidates):
    return [c for c in candidates if dump_step(c.steps[-1]).get("options") == {"cuda_graphs": True}]


def test_a_profile_of_short_operations_is_bound_by_launches():
    assert launch_bound(profile(SHORT, LONG)) == "40 operations of at most 30 µs make 57% of a call"


@pytest.mark.parametrize(
    "shown",
    [
        None,
        Profile(operations=[], total_ms=0.0),
        profile((40, 4.0)),  # 100 µs each
        profile(SHORT, (2, 40.0)),  # short ones are 2 % of the call
        profile((5, 0.1)),  # five of them: nothing to gain
    ],
)
def test_a_profile_that_does_not_show_launches_says_nothing(shown):
    assert launch_bound(shown) is None


def test_recording_is_a_peer_and_a_rewritten_candidate_with_a_typed_step():
    plan = planner()
    (peer,), (rewritten,) = recorded(plan.peers()), recorded(plan.first_rewritten())
    assert (peer.name, peer.peer, has_passes(peer)) == (NAME, True, False)
    assert (rewritten.name, rewritten.peer, has_passes(rewritten)) == (f"{NAME} + rewrites", False, True)
    assert peer.steps[-1] == BackendStep(backend="inductor", options={"cuda_graphs": True})
    assert peer.why == "recorded kernels: 40 operations of at most 30 µs make 57% of a call"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"serve_sizes": 2}, "its dimensions vary, and a recorded graph holds for one shape"),
        ({"launch_bound": None}, "the profile does not show that launching kernels bounds the call"),
    ],
)
def test_where_it_cannot_pay_it_is_dropped_with_the_reason(changes, reason):
    plan = planner(**changes)
    assert recorded([*plan.peers(), *plan.first_rewritten()]) == []
    reasons = {d.candidate.name: d.reason for d in plan.dropped}
    assert reasons[NAME].startswith(reason)


def test_on_a_cpu_nobody_hears_of_it():
    plan = planner(target="cpu")
    assert recorded([*plan.peers(), *plan.first_rewritten()]) == []
    assert NAME not in {d.candidate.name for d in plan.dropped}
    assert refusal("rocm:gfx942", "much", 0) == ""


def test_without_inductor_there_is_nothing_to_record():
    plan = planner(backends={"eager": None, "inductor": "no compiler"})
    assert recorded([*plan.peers(), *plan.first_rewritten()]) == []
    assert [(d.candidate.name, d.reason) for d in plan.dropped] == [("inductor", "no compiler")]


def test_where_float32_is_not_allowed_it_is_not_recorded():
    plan = planner(policy=Policy(precisions=["bfloat16"]))
    assert recorded([*plan.peers(), *plan.first_rewritten()]) == []
