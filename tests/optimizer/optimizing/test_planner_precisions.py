"""What the planner proposes in lower precisions: whole graphs, layers, and what neither policy nor machine allows."""

from optimizer.optimizing.planner import no_less_precise, precision_of, same_steps
from optimizer.spec import KeepFloat32, LayerShape, Policy, PrecisionStep, dump_step
from tests.optimizer.optimizing.test_planner import backend_of, planner


def low_step(precision, keep):
    return PrecisionStep(precision=precision, keep_float32=keep)


def test_bfloat16_is_not_proposed_when_the_policy_forbids_it():
    plan = planner()
    assert plan.low_precision() == []
    assert plan.dropped == []


def test_bfloat16_without_the_instructions_is_dropped_with_the_machines_reason():
    plan = planner(policy=Policy(precisions=["float32", "bfloat16"]), bfloat16_refusal="no avx512_bf16")
    assert plan.low_precision() == []
    assert {d.reason for d in plan.dropped} == {"no avx512_bf16"}
    assert len(plan.dropped) == 4  # two engines, with and without rewrites


def test_where_float32_is_not_allowed_only_the_lower_precision_is_proposed():
    plan = planner(policy=Policy(precisions=["bfloat16"]))
    assert (plan.peers(), plan.first_rewritten(), plan.more_rewritten({})) == ([], [], [])
    assert {precision_of(candidate) for candidate in plan.low_precision()} == {"bfloat16"}
    reasons = {d.candidate.name: d.reason for d in plan.dropped}
    assert reasons["aot_inductor"] == "policy and workload do not both allow float32"


IN_INT8 = Policy(precisions=["float32", "int8"])


def test_int8_as_engines_have_it_is_a_peer():
    backends = {"eager": None, "aot_inductor": None, "openvino": None, "onnxruntime": None, "torchao": None}
    low = planner(policy=IN_INT8, backends=backends).low_precision()
    assert [c.name for c in low] == [
        "aot_inductor + int8",
        "onnxruntime + int8",
        "torchao + int8",
        "torchao flow=pt2e + int8",
    ]
    assert all(c.peer for c in low) and {precision_of(c) for c in low} == {"int8"}
    assert [dump_step(s) for s in low[0].steps[1:]] == [{"precision": "int8"}, {"backend": "aot_inductor"}]
    assert dump_step(low[3].steps[-1]) == {"backend": "torchao", "options": {"flow": "pt2e"}}


def test_torchao_is_tried_in_int8_alone_and_named_in_int8_where_it_is_missing():
    backends = {"eager": None, "torchao": "not installed"}
    plan = planner(policy=IN_INT8, backends=backends)
    assert (plan.peers(), plan.low_precision()) == ([], [])
    assert [backend_of(c) for c in [*plan.first_rewritten(), *plan.more_rewritten({})]] == ["eager"]
    assert [(d.candidate.name, precision_of(d.candidate), d.reason) for d in plan.dropped] == [
        ("torchao + int8", "int8", "not installed")
    ]
    plan = planner(policy=Policy(precisions=["float32", "bfloat16"]), backends={**backends, "torchao": None})
    assert plan.low_precision() == [] and plan.dropped == []


def test_int8_by_layer_is_the_rewritten_graph_but_for_the_layers_that_are_kept():
    keep = KeepFloat32(layers=[LayerShape(inputs=8, outputs=1)])
    (candidate,) = planner(policy=IN_INT8).by_layer(low_step("int8", keep))
    assert (candidate.name, candidate.peer) == ("aot_inductor + int8 by layer + rewrites", False)
    assert dump_step(candidate.steps[-2]) == {
        "precision": "int8",
        "keep_float32": {"layers": [{"inputs": 8, "outputs": 1}]},
    }
    assert (
        planner(rewrites=[], policy=IN_INT8).by_layer(low_step("int8", keep))[0].name == "aot_inductor + int8 by layer"
    )


def test_int8_is_proposed_neither_against_the_policy_nor_against_the_machine():
    assert planner().by_layer(low_step("int8", KeepFloat32())) == planner().low_precision() == []
    plan = planner(policy=IN_INT8, int8_refusal="no avx512_vnni")
    assert plan.low_precision() == plan.by_layer(low_step("int8", KeepFloat32())) == []
    assert {(d.candidate.name, d.reason) for d in plan.dropped} == {("aot_inductor + int8", "no avx512_vnni")}


def test_bfloat16_by_layer_is_the_rewritten_graph_but_for_the_layers_that_are_kept():
    keep = KeepFloat32(layers=[LayerShape(op="matmul", inputs=64, outputs=None)])
    plan = planner(policy=Policy(precisions=["float32", "bfloat16"]))
    (candidate,) = plan.by_layer(low_step("bfloat16", keep))
    assert (candidate.name, candidate.peer) == ("aot_inductor + bfloat16 by layer + rewrites", False)
    assert dump_step(candidate.steps[-2]) == {
        "precision": "bfloat16",
        "keep_float32": {"layers": [{"op": "matmul", "inputs": 64}]},
    }
    assert no_less_precise(candidate) == {"float32", "bfloat16"}


def test_bfloat16_with_nothing_kept_has_the_name_and_the_steps_of_the_whole_graph_in_it():
    plan = planner(policy=Policy(precisions=["float32", "bfloat16"]))
    (candidate,) = plan.by_layer(low_step("bfloat16", KeepFloat32()))
    assert [c.name for c in plan.low_precision() if same_steps(c, candidate)] == [candidate.name]


def test_bfloat16_by_layer_is_proposed_neither_against_the_policy_nor_without_the_instructions_nor_for_a_gpu():
    allowed = Policy(precisions=["float32", "bfloat16"])
    assert planner().by_layer(low_step("bfloat16", KeepFloat32())) == []
    assert (
        planner(policy=allowed, bfloat16_refusal="no avx512_bf16").by_layer(low_step("bfloat16", KeepFloat32())) == []
    )
    assert planner(policy=allowed, target="cuda:sm_90").by_layer(low_step("bfloat16", KeepFloat32())) == []


def test_of_the_rest_in_bfloat16_too_layers_are_kept_and_where_none_gains_there_is_no_such_plan():
    plan = planner(policy=Policy(precisions=["float32", "bfloat16", "int8"]))
    scores = KeepFloat32(layers=[LayerShape(op="matmul", inputs=64)])
    low_only, mixed = plan.by_layer(low_step("int8", KeepFloat32()), scores)
    assert dump_step(low_only.steps[-2]) == {"precision": "int8"}
    assert dump_step(mixed.steps[-2]) == {
        "precision": "int8",
        "rest": "bfloat16",
        "rest_keep_float32": {"layers": [{"op": "matmul", "inputs": 64}]},
    }
    assert [c.name for c in plan.by_layer(low_step("int8", KeepFloat32()), None)] == [low_only.name]


def test_a_fair_peer_is_no_less_precise():
    low = planner(policy=Policy(precisions=["float32", "bfloat16", "int8"]))
    low_only, mixed = low.by_layer(low_step("int8", KeepFloat32()))
    assert [c.name for c in (low_only, mixed)] == [
        "aot_inductor + int8 by layer + rewrites",
        "aot_inductor + int8 by layer + bfloat16 + rewrites",
    ]
    assert no_less_precise(mixed) == {"float32", "bfloat16", "int8"}
    assert no_less_precise(low.low_precision()[0]) == {"float32", "bfloat16"}
    assert no_less_precise(low.peers()[0]) == {"float32"}
