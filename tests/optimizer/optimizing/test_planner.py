"""The planner proposes peers, rewritten graphs and leave-one-outs, and names what it drops."""

import pytest

from optimizer.coordinator.builds import longest_first
from optimizer.optimizing.planner import (
    Facts,
    Planner,
    costliest_first,
    culprits_first,
    has_passes,
    on_larger_plan,
    precision_of,
)
from optimizer.result import Rewrite, Site
from optimizer.spec import (
    BackendStep,
    PassStep,
    Policy,
    PrecisionStep,
    RuntimeSettings,
    RuntimeStep,
    dump_step,
)

TUNED = RuntimeSettings(allocator="glibc-no-trim", huge_pages=True)


def rewrite(name, *, applied=1, numerics="exact"):
    sites = [Site(node=f"n{i}", reason="done") for i in range(applied)]
    return Rewrite(pass_=name, applied=sites, numerics=numerics, nodes_before=10, nodes_after=8, seconds=0.1)


def planner(*, rewrites=None, **changes):
    facts = {
        "format": "pt2",
        "baseline_backend": "eager",
        "backends": {"eager": None, "aot_inductor": None, "openvino": None, "onnxruntime": "not installed"},
        "settings": TUNED,
        "policy": Policy(),
        "bfloat16_refusal": None,
    }
    usual = [
        rewrite("remove_noops"),
        rewrite("merge_embedding_tables", numerics="exact"),
        rewrite("split_target_attention", numerics="reassociates"),
        rewrite("fold_batch_norm", applied=0),
    ]
    return Planner(Facts(**{**facts, **changes}), rewrites=usual if rewrites is None else rewrites)


def backend_of(candidate):
    return candidate.steps[-1].backend


def removed(left_out):
    """The passes that each of these plans is without."""
    return [[dump_step(s)["pass"] for s in one.steps] for one in left_out]


def test_every_usable_engine_is_a_peer_and_the_missing_one_is_named_with_its_reason():
    plan = planner()
    assert [backend_of(c) for c in plan.peers()] == ["aot_inductor", "openvino"]
    assert [(backend_of(d.candidate), d.reason) for d in plan.dropped] == [("onnxruntime", "not installed")]


def test_a_policy_that_names_backends_drops_the_others_with_that_reason():
    plan = planner(policy=Policy(backends=["openvino"]))
    assert [backend_of(c) for c in plan.peers()] == ["openvino"]
    assert "aot_inductor" in {backend_of(d.candidate) for d in plan.dropped if "does not name" in d.reason}


def test_rewritten_candidates_carry_only_passes_that_applied_in_their_order():
    first = planner().first_rewritten()[0]
    assert [s.pass_ for s in first.steps if isinstance(s, PassStep)] == [
        "remove_noops",
        "merge_embedding_tables",
        "split_target_attention",
    ]
    assert not first.peer


def test_operations_of_the_kernel_library_are_proposed_where_their_kernels_run():
    fused = [rewrite("fuse_operations", numerics="reassociates")]
    assert planner(rewrites=fused).first_rewritten() == []
    (candidate,) = planner(rewrites=fused, target="cuda:sm_90").first_rewritten()
    assert [dump_step(step)["pass"] for step in candidate.steps if isinstance(step, PassStep)] == ["fuse_operations"]


def test_no_rewrite_applied_means_no_rewritten_candidate():
    assert planner(rewrites=[rewrite("fold_batch_norm", applied=0)]).first_rewritten() == []


def test_the_steps_are_settings_then_passes_then_precision_then_the_backend():
    candidate = planner(policy=Policy(precisions=["float32", "bfloat16"])).low_precision()[0]
    kinds = [type(step) for step in candidate.steps]
    assert kinds == [RuntimeStep, PassStep, PassStep, PassStep, PrecisionStep, BackendStep]


def test_leave_one_out_removes_one_pass_at_a_time_and_the_tidying_ones_together():
    plan = planner()
    best = plan.first_rewritten()[0]
    # the reassociating pass first: it is the one known to lose on some models
    assert removed(plan.leave_one_out(best)) == [
        ["split_target_attention"],
        ["merge_embedding_tables"],
        ["remove_noops"],
    ]
    for one in plan.leave_one_out(best):
        assert one.whole is best
        assert len(one.without.steps) == len(best.steps) - len(one.steps)
        assert isinstance(one.without.steps[0], RuntimeStep)


def test_without_settings_keeps_everything_but_the_runtime_step():
    plan = planner()
    best = plan.first_rewritten()[0]
    bare = plan.without_settings(best)
    assert bare is not None
    assert bare.without.steps == best.steps[1:]
    assert (bare.steps, bare.whole) == ([best.steps[0]], best)
    assert (
        planner(settings=RuntimeSettings()).without_settings(planner(settings=RuntimeSettings()).first_rewritten()[0])
        is None
    )


def test_candidate_names_are_unique():
    plan = planner(policy=Policy(precisions=["float32", "bfloat16"]))
    candidates = [*plan.peers(), *plan.first_rewritten(), *plan.more_rewritten({}), *plan.low_precision()]
    names = [c.name for c in candidates]
    assert len(set(names)) == len(names)


def test_an_onnx_model_gets_the_runtimes_other_levels_as_peers():
    plan = planner(format="onnx", baseline_backend="onnxruntime", backends={"onnxruntime": None, "openvino": None})
    levels = [c.steps[-1].options.get("level") for c in plan.peers() if backend_of(c) == "onnxruntime"]
    assert levels == ["extended", "basic"]


def test_an_engine_that_loses_by_itself_is_not_rewritten_and_is_named_with_how_far_it_came():
    plan = planner()
    chosen = plan.more_rewritten({"aot_inductor": 2.0, "openvino": 1.8})
    assert [backend_of(c) for c in chosen] == ["openvino"]
    # eager by itself is the baseline: 1.0 of 2.0
    assert [(backend_of(d.candidate), d.reason) for d in plan.dropped] == [
        ("eager", "eager by itself reaches 50% of the fastest engine's speed")
    ]


def test_inductor_is_rewritten_only_where_it_beats_aot_inductor_alone():
    engines = {"eager": None, "aot_inductor": None, "inductor": None}
    assert [
        backend_of(c) for c in planner(backends=engines).more_rewritten({"aot_inductor": 1.0, "inductor": 1.2})
    ] == ["eager", "inductor"]
    plan = planner(backends=engines)
    assert [backend_of(c) for c in plan.more_rewritten({"aot_inductor": 1.2, "inductor": 1.2})] == ["eager"]
    assert "what AOTInductor packages" in plan.dropped[0].reason


def test_an_engine_that_failed_by_itself_is_not_rewritten():
    plan = planner()
    plan.more_rewritten({"aot_inductor": 1.2})
    assert ("openvino", "openvino by itself gave no correct and timed answer") in [
        (backend_of(d.candidate), d.reason) for d in plan.dropped
    ]


def test_an_engine_that_was_never_timed_is_not_blamed_for_it():
    plan = planner()
    plan.more_rewritten({"aot_inductor": 1.2}, {"openvino": "the time budget was over before it was built"})
    assert ("openvino", "openvino by itself was not timed: the time budget was over before it was built") in [
        (backend_of(d.candidate), d.reason) for d in plan.dropped
    ]


def test_builds_that_take_longest_come_first():
    plan = planner(backends={"eager": None, "openvino": None, "aot_inductor": None, "inductor": None})
    assert [backend_of(c) for c in longest_first(plan.peers())] == ["aot_inductor", "inductor", "openvino"]


def test_the_steps_that_the_leader_missed_most_are_asked_first_and_those_never_measured_last():
    plan = planner()
    leader = plan.first_rewritten()[0]
    split, merge, tidy = plan.leave_one_out(leader)
    # without the split the leader falls from 3.0 to 1.5, without the merge only to 2.5
    speedups = {leader.name: 3.0, split.without.name: 1.5, merge.without.name: 2.5}
    asked = [tidy, merge, split]
    assert costliest_first(asked, [split, merge], speedups) == [split, merge, tidy]
    # without the merge it is faster: that step comes after the one that pays, and still before what is not known
    assert costliest_first(asked, [split, merge], {**speedups, merge.without.name: 3.5}) == [split, merge, tidy]
    assert costliest_first(asked, [split, merge], {**speedups, split.without.name: 2.8}) == [merge, split, tidy]
    assert costliest_first(asked, [], {}) == asked, "nothing is known: the order stays"
    assert costliest_first(asked, [split, merge], {split.without.name: 1.5}) == asked, "the leader itself failed"


def test_what_the_leader_missed_orders_the_steps_of_a_winner_that_is_the_leader_less_one():
    plan = planner(rewrites=[*planner().rewrites, rewrite("fuse_attention", numerics="reassociates", applied=3)])
    leader = plan.first_rewritten()[0]
    variants = plan.leave_one_out(leader)
    winner = next(one.without for one in variants if one.without.name.endswith("- merge_embedding_tables"))
    costs = {"split_target_attention": 1.5, "fuse_attention": 2.9, "merge_embedding_tables": 3.2}
    speedups = {one.without.name: costs.get(one.without.name.rpartition(" - ")[2], 0.0) for one in variants[:3]}
    asked = costliest_first(plan.leave_one_out(winner), variants, {leader.name: 3.0, **speedups})
    assert removed(asked) == [["split_target_attention"], ["fuse_attention"], ["remove_noops"]]
    assert asked[0].without.name == f"{leader.name} - merge_embedding_tables - split_target_attention"


def test_a_step_of_a_variant_can_be_left_out_of_the_leader_that_the_variant_is_a_part_of():
    plan = planner()
    leader = plan.first_rewritten()[0]
    split, merge, _ = plan.leave_one_out(leader)
    asked, asked_tidy = plan.leave_one_out(merge.without)
    assert on_larger_plan(asked, [merge, split]) is split
    assert on_larger_plan(asked_tidy, [merge, split]) is None, "the tidying was not left out of the leader"
    assert on_larger_plan(asked, []) is None


@pytest.mark.parametrize("backend", ["aot_inductor", "openvino"])
def test_a_step_is_not_left_out_of_a_plan_that_is_not_larger(backend):
    plan = planner()
    one, other = (plan._rewritten([name])[0] for name in ("aot_inductor", "openvino"))
    asked = plan.leave_one_out(one if backend == "aot_inductor" else other)
    built = plan.leave_one_out(one)
    # on itself it is the same question; on another engine it would be a question about that engine
    assert [on_larger_plan(question, built) for question in asked] == [None, None, None]


def test_bfloat16_without_passes_is_a_peer_and_with_passes_it_is_none():
    candidates = planner(policy=Policy(precisions=["float32", "bfloat16"])).low_precision()
    assert [(c.name, c.peer) for c in candidates] == [
        ("openvino + bfloat16 + rewrites", False),
        ("aot_inductor + bfloat16 + rewrites", False),
        ("openvino + bfloat16", True),
        ("aot_inductor + bfloat16", True),
    ]
    assert [has_passes(c) for c in candidates] == [True, True, False, False]
    assert {precision_of(c) for c in candidates} == {"bfloat16"}


def test_a_variant_says_what_it_is_and_not_what_is_learned_from_it():
    plan = planner()
    variants = {one.without.why for one in plan.leave_one_out(plan.first_rewritten()[0])}
    assert "aot_inductor + rewrites without merge_embedding_tables" in variants


@pytest.mark.parametrize(("sizes", "proposed"), [(0, False), (1, True), (4, True), (5, False)])
def test_openvino_with_fixed_shapes_is_a_peer_where_few_sizes_are_served(sizes, proposed):
    plan = planner(serve_sizes=sizes)
    static = [c for c in plan.peers() if dict(c.steps[-1].options) == {"static": True}]
    assert [c.name for c in static] == (["openvino static=True"] if proposed else [])
    assert all(c.peer and backend_of(c) == "openvino" for c in static)
    reasons = [d.reason for d in plan.dropped if d.candidate.name == "openvino static=True"]
    assert reasons == (["each start would compile the model for 5 sizes; 4 at most"] if sizes == 5 else [])


def test_no_fixed_shapes_are_proposed_where_openvino_itself_is_not():
    plan = planner(serve_sizes=1, policy=Policy(backends=["aot_inductor"]))
    assert [backend_of(c) for c in plan.peers()] == ["aot_inductor"]


@pytest.mark.parametrize(
    ("static", "options"), [(2.1, {"static": True}), (1.7, {}), (None, {})], ids=["faster", "slower", "not measured"]
)
def test_openvino_is_rewritten_with_fixed_shapes_where_these_were_faster_alone(static, options):
    screened = {"aot_inductor": 2.0, "openvino": 1.8}
    chosen = planner().more_rewritten(screened if static is None else {**screened, "openvino static=True": static})
    (one,) = [c for c in chosen if backend_of(c) == "openvino"]
    assert one.steps[-1].options == options and has_passes(one)


def test_a_blamed_pass_is_not_proposed_again():
    plan = planner()
    plan.blamed = {"merge_embedding_tables"}
    names = [[s.pass_ for s in c.steps if isinstance(s, PassStep)] for c in plan.more_rewritten({"openvino": 1.0})]
    assert names and all(passes == ["remove_noops", "split_target_attention"] for passes in names)


def sited(name, node, source):
    site = Site(node=node, source=source, reason="done")
    return Rewrite(pass_=name, applied=[site], nodes_before=10, nodes_after=8, seconds=0.1)


@pytest.mark.parametrize(
    ("diverging", "blamed", "order", "suspected"),
    [
        ("aten.add (linear_2, m.py:7)", set(), ["c", "a", "b"], True),
        ("aten.add (elsewhere, m.py:3)", set(), ["b", "a", "c"], True),
        ("aten.add (linear_1)", set(), ["b", "a", "c"], True),
        ("aten.add (linear, m.py:77)", set(), ["a", "b", "c"], False),
        (None, set(), ["a", "b", "c"], False),
        (None, {"b"}, ["b", "a", "c"], True),
    ],
)
def test_the_pass_whose_node_or_line_departs_first_is_the_suspect(diverging, blamed, order, suspected):
    rewrites = [sited("a", "linear_0", "m.py:1"), sited("b", "linear_1", "m.py:3"), sited("c", "linear_2", "m.py:5")]
    plan = planner(rewrites=rewrites)
    found, sure = culprits_first(plan.leave_one_out(plan.first_rewritten()[0]), rewrites, diverging, blamed)
    assert [names for (names,) in removed(found)] == order
    assert sure is suspected


def test_what_would_leave_no_telling_pass_is_not_tried():
    rewrites = [rewrite("remove_noops"), rewrite("fuse_attention")]
    plan = planner(rewrites=rewrites)
    found, sure = culprits_first(plan.leave_one_out(plan.first_rewritten()[0]), rewrites, None, set())
    assert removed(found) == [["remove_noops"]], "without the attention it is the engine alone"
    assert not sure
