"""The planner proposes peers, rewritten graphs and leave-one-outs, and names what it drops."""

from optimizer.optimizing.planner import Facts, Planner, longest_first
from optimizer.result import Rewrite, Site
from optimizer.spec import BackendStep, PassStep, Policy, PrecisionStep, RuntimeSettings, RuntimeStep, dump_step

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


def test_no_rewrite_applied_means_no_rewritten_candidate():
    assert planner(rewrites=[rewrite("fold_batch_norm", applied=0)]).first_rewritten() == []


def test_the_steps_are_settings_then_passes_then_precision_then_the_backend():
    candidate = planner(policy=Policy(precisions=["float32", "bfloat16"])).low_precision()[0]
    kinds = [type(step) for step in candidate.steps]
    assert kinds == [RuntimeStep, PassStep, PassStep, PassStep, PrecisionStep, BackendStep]


def test_bfloat16_is_not_proposed_when_the_policy_forbids_it():
    plan = planner()
    assert plan.low_precision() == []
    assert plan.dropped == []


def test_bfloat16_without_the_instructions_is_dropped_with_the_machines_reason():
    plan = planner(policy=Policy(precisions=["float32", "bfloat16"]), bfloat16_refusal="no avx512_bf16")
    assert plan.low_precision() == []
    assert {d.reason for d in plan.dropped} == {"no avx512_bf16"}
    assert len(plan.dropped) == 4  # two engines, with and without rewrites


def test_leave_one_out_removes_one_pass_at_a_time_and_the_tidying_ones_together():
    plan = planner()
    best = plan.first_rewritten()[0]
    removed = [[dump_step(s)["pass"] for s in steps] for steps, _ in plan.leave_one_out(best)]
    # the reassociating pass first: it is the one known to lose on some models
    assert removed == [["split_target_attention"], ["merge_embedding_tables"], ["remove_noops"]]
    for steps, candidate in plan.leave_one_out(best):
        assert len(candidate.steps) == len(best.steps) - len(steps)
        assert isinstance(candidate.steps[0], RuntimeStep)


def test_without_settings_keeps_everything_but_the_runtime_step():
    plan = planner()
    best = plan.first_rewritten()[0]
    bare = plan.without_settings(best)
    assert bare is not None
    assert bare.steps == best.steps[1:]
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


def test_builds_that_take_longest_come_first():
    plan = planner(backends={"eager": None, "openvino": None, "aot_inductor": None, "inductor": None})
    assert [backend_of(c) for c in longest_first(plan.peers())] == ["aot_inductor", "inductor", "openvino"]
