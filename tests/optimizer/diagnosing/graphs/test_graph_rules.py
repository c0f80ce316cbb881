"""Rules on graphs drawn by hand: where each begins and ends, what it counts, and what a profile adds."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.diagnosing.base import RULES, Evidence, diagnose, diagnosed
from optimizer.result import Finding, Rewrite, Site
from tests.optimizer.diagnosing.graphs.drawn import Drawing, workload


def found(rule: str, evidence: Evidence) -> list[Finding]:
    return list(RULES.get(rule).check(evidence))


def lookups(count: int) -> Drawing:
    drawing = Drawing()
    for index in range(count):
        drawing.add(f"table{index}", "weight", sizes=(20, 4)).add(f"id{index}", sizes=(16,), dtype="int64")
    for index in range(count):
        drawing.add(f"lookup{index}", "embedding", f"table{index} id{index}", sizes=(16, 4), source="model.py:7")
    return drawing


def attention(**softmax: Any) -> Drawing:
    drawing = Drawing().add("q").add("k").add("v")
    drawing.add("scores", "matmul", "q k", sizes=(4, 4)).add("scaled", "div", "scores", sizes=(4, 4))
    return drawing.add("weights", "softmax", "scaled", sizes=(4, 4), **softmax).add("out", "matmul", "weights v")


def test_an_empty_graph_and_one_operation_raise_nothing() -> None:
    assert diagnose(Drawing().evidence()) == []
    assert diagnose(Drawing().add("x").evidence()) == []
    assert diagnose(Drawing().add("x").add("y", "relu", "x").evidence()) == []
    one = Drawing().add("x").add("y", "relu", "x")
    assert [f.rule for f in diagnose(one.evidence(profile=one.profile(y=2.0)))] == ["dominant_operation"]


def test_nine_lookups_are_many_and_eight_are_not() -> None:
    assert found("many_embeddings", lookups(8).evidence()) == []
    (finding,) = found("many_embeddings", lookups(9).evidence())
    assert finding.title == "9 embedding lookups a call, each an operation of its own, at model.py:7"
    assert finding.evidence["lookups_by_width"] == {"4": 9}
    # nine tables of 20 rows of 4 floats; nine results of 16 rows
    assert (finding.evidence["table_bytes"], finding.evidence["looked_up_bytes"]) == (9 * 320, 9 * 256)


def test_attention_whose_weights_are_handed_back_is_none_that_could_be_fused() -> None:
    assert found("written_out_attention", attention().evidence("out"))
    assert found("written_out_attention", attention().evidence("out", "weights")) == []


def test_a_softmax_over_a_linear_layer_is_no_attention() -> None:
    drawing = Drawing().add("x").add("w", "weight", sizes=(8, 8)).add("wt", "t", "w", sizes=(8, 8), view=True)
    drawing.add("scores", "matmul", "x wt").add("weights", "softmax", "scores").add("v")
    assert found("written_out_attention", drawing.add("out", "matmul", "weights v").evidence()) == []


@pytest.mark.parametrize(("dim", "norms"), [([-1], 1), ([1], 1), ([0, 1], 1), ([0], 0), (None, 0)])
def test_only_a_norm_over_the_last_dimensions_has_one_operation(dim: list[int] | None, norms: int) -> None:
    drawing = Drawing().add("x").add("squares", "pow", "x", exponent=2)
    drawing.add("mean", "mean", "squares", sizes=(4, 1), dim=dim).add("root", "rsqrt", "mean", sizes=(4, 1))
    drawing.add("normed", "mul", "x root")
    assert len(found("written_out_norms", drawing.evidence())) == norms


def test_the_saving_of_a_fused_norm_is_counted_in_bytes() -> None:
    drawing = Drawing().add("x", sizes=(4, 8)).add("squares", "pow", "x", exponent=2)
    drawing.add("mean", "mean", "squares", sizes=(4, 1), dim=[-1]).add("root", "rsqrt", "mean", sizes=(4, 1))
    drawing.add("normed", "mul", "x root")
    profile = drawing.profile(squares=1.0, mean=1.0, root=1.0, normed=1.0)
    (finding,) = found("written_out_norms", drawing.evidence(profile=profile))
    # x is 128 bytes, a mean 16: (128+128) + (128+16) + (16+16) + (128+16+128); fused 128 are read and 128 written
    assert (finding.evidence["bytes_moved"], finding.evidence["bytes_moved_fused"]) == (704, 256)
    saved = 1 - 256 / 704
    assert finding.gain is not None
    assert finding.gain.low == pytest.approx(1 / (1 - saved / 2), abs=1e-3)
    assert finding.gain.high == pytest.approx(1 / (1 - saved), abs=1e-3)


def test_single_numbers_in_double_precision_are_no_leftovers() -> None:
    drawing = Drawing().add("x").add("scale", "weight", sizes=(), dtype="float64")
    drawing.add("half", "div", "scale", sizes=(), dtype="float64").add("y", "mul", "x half")
    assert found("float64_leftovers", drawing.evidence()) == []


def test_double_precision_is_told_where_it_begins() -> None:
    drawing = Drawing().add("x").add("wide", "to", "x", dtype="float64")
    drawing.add("y", "exp", "wide", dtype="float64").add("z", "to", "y")
    (finding,) = found("float64_leftovers", drawing.evidence())
    assert (finding.evidence["begins_with"], finding.evidence["begins_at"]) == (["to wide"], ["model.py:2"])
    assert finding.title == "2 operations compute in float64, at model.py:2"


def test_the_second_cast_of_one_tensor_could_go_and_the_first_could_not() -> None:
    drawing = Drawing().add("x").add("a", "to", "x", dtype="float16").add("b", "to", "x", dtype="float16")
    (finding,) = found("redundant_casts", drawing.evidence("a", "b"))
    assert finding.evidence["nodes"] == ["b"]
    assert (finding.evidence["casts"], finding.evidence["bytes_moved"]) == (["float32 to float16"], 128 + 64)


def test_a_cast_that_others_need_stays_when_it_is_undone() -> None:
    drawing = Drawing().add("x").add("a", "to", "x", dtype="float16").add("b", "to", "a")
    assert found("redundant_casts", drawing.evidence("b"))[0].evidence["nodes"] == ["a", "b"]
    drawing.add("c", "relu", "a", dtype="float16")
    assert found("redundant_casts", drawing.evidence("b", "c"))[0].evidence["nodes"] == ["b"]


def test_permutes_that_give_another_order_together_are_none_too_many() -> None:
    def twice(second: list[int]) -> list[Finding]:
        drawing = Drawing().add("x", sizes=(2, 3, 4)).add("a", "permute", "x", (3, 4, 2), dims=[1, 2, 0], view=True)
        drawing.add("copy", "contiguous", "a", (3, 4, 2)).add("b", "permute", "copy", (2, 3, 4), dims=second, view=True)
        return found("redundant_permutes", drawing.evidence())

    assert twice([1, 2, 0]) == []
    (finding,) = twice([2, 0, 1])
    assert (finding.evidence["undone"], finding.severity) == (1, "low")
    assert finding.evidence["bytes_moved"] == 2 * 24 * 4, "the copy alone moves anything"


def test_views_that_undo_each_other_are_told_as_what_costs_nothing() -> None:
    drawing = Drawing().add("x", sizes=(2, 3)).add("a", "t", "x", (3, 2), view=True)
    (finding,) = found("redundant_permutes", drawing.add("b", "t", "a", (2, 3), view=True).evidence())
    assert (finding.severity, finding.title) == (
        "info",
        "1 permute is undone by the next one, at model.py:2, model.py:3",
    )


# ---- padding -------------------------------------------------------------------------------------------------------


def padded(values: dict[str, float], size: int = 20) -> list[Finding]:
    drawing = (
        Drawing().add("lengths", sizes=(4,), dtype="int64").add("positions", "arange", sizes=(size,), dtype="int64")
    )
    drawing.add("column", "unsqueeze", "lengths", (4, 1), dtype="int64", view=True)
    drawing.add("mask", "lt", "positions column", (4, size), dtype="bool")
    given = workload([{"name": "lengths", "dtype": "int64", "shape": [4], "values": values}])
    return found("padding_waste", drawing.evidence(workload=given))


@pytest.mark.parametrize(("length", "filled"), [(13, 0.65), (5, 0.25), (0, 0.0)])
def test_short_lengths_are_padding_waste(length: int, filled: float) -> None:
    (finding,) = padded({"constant": length})
    assert finding.evidence["filled"] == {"lengths": filled}
    assert finding.title == f"{1 - filled:.0%} of 20 positions are padding, as lengths says, at model.py:4"


def test_lengths_from_seventy_percent_on_and_a_few_positions_are_no_waste() -> None:
    assert padded({"constant": 14}) == []
    assert padded({"constant": 1}, size=7) == []


@pytest.mark.parametrize(("flipped", "filled"), [(False, 0.4), (True, 0.6)])
def test_a_mask_that_hides_and_one_that_keeps_are_told_apart(flipped: bool, filled: float) -> None:
    drawing = Drawing().add("mask", sizes=(4, 10), dtype="bool").add("x", sizes=(4, 10))
    if flipped:
        drawing.add("kept", "logical_not", "mask", (4, 10), dtype="bool")
    drawing.add("y", "masked_fill", f"x {'kept' if flipped else 'mask'}", (4, 10))
    values = {"bernoulli": 0.6}
    given = workload([{"name": "mask", "dtype": "bool", "shape": [4, 10], "values": values}, *_plain("x", [4, 10])])
    (finding,) = found("padding_waste", drawing.evidence(workload=given))
    # 4 sets of 40 draws: within three standard deviations
    assert finding.evidence["filled"]["mask"] == pytest.approx(filled, abs=3 * (0.24 / 160) ** 0.5)


def test_a_mask_without_declared_values_says_nothing() -> None:
    drawing = Drawing().add("mask", sizes=(4, 10), dtype="bool").add("x", sizes=(4, 10))
    drawing.add("y", "masked_fill", "x mask", (4, 10))
    given = workload([{"name": "mask", "dtype": "bool", "shape": [4, 10]}, *_plain("x", [4, 10])])
    assert found("padding_waste", drawing.evidence(workload=given)) == []


@pytest.mark.parametrize(("shape", "alarms"), [((4, 10), 0), ((4, 10, 8), 1)])
def test_a_mask_over_features_is_no_padding_and_one_over_positions_is(shape: tuple[int, ...], alarms: int) -> None:
    drawing = Drawing().add("mask", sizes=(4, 10), dtype="bool").add("x", sizes=shape)
    if alarms:
        drawing.add("wide", "unsqueeze", "mask", (4, 10, 1), dtype="bool", view=True)
    drawing.add("y", "mul", f"x {'wide' if alarms else 'mask'}", shape)
    values = {"bernoulli": 0.3}
    mask = {"name": "mask", "dtype": "bool", "shape": [4, 10], "values": values}
    given = workload([mask, *_plain("x", list(shape))])
    assert len(found("padding_waste", drawing.evidence(workload=given))) == alarms


def _plain(name: str, shape: list[int]) -> list[dict[str, Any]]:
    return [{"name": name, "dtype": "float32", "shape": shape}]


# ---- sizes ---------------------------------------------------------------------------------------------------------


def test_more_than_eight_combinations_of_sizes_are_a_risk_to_compile_again() -> None:
    def served(batches: list[int], lengths: list[int]) -> list[Finding]:
        inputs = [{"name": "x", "dtype": "float32", "shape": ["batch", "length"]}]
        dims = {"batch": {"serve": batches, "max": 64}, "length": {"serve": lengths, "max": 64}}
        return found("recompile_risk", Drawing().add("x").evidence(workload=workload(inputs, **dims)))

    assert served([1, 2, 4, 8], [16, 32]) == []
    (finding,) = served([1, 2, 4], [16, 32, 64])
    assert (finding.evidence["combinations"], finding.evidence["recompile_limit"]) == (9, 8)


def test_sizes_that_depend_on_values_are_told_where_they_begin() -> None:
    drawing = Drawing().add("x").add("at", "nonzero", "x", (None, 2), shape=["u0", 2], dtype="int64")
    drawing.add("more", "add", "at", (None, 2), shape=["u0", 2], dtype="int64")
    (finding,) = found("values_as_numbers", drawing.evidence())
    assert (finding.evidence["sizes_by_values"], finding.evidence["sources"]) == (1, ["model.py:2"])


# ---- what a profile and passes add -----------------------------------------------------------------------------------


def test_a_profile_gives_cost_severity_and_gain() -> None:
    drawing = attention()
    profile = drawing.profile(scores=5.0, scaled=1.0, weights=2.0, out=2.0)
    finding = next(f for f in diagnose(drawing.evidence(profile=profile)) if f.rule == "written_out_attention")
    # between the products: 1 + 2 of 10 ms, of which 30 to 90 % come back
    assert (finding.cost_ms, finding.cost_share, finding.severity) == (3.0, 0.3, "high")
    assert finding.gain is not None and (finding.gain.low, finding.gain.high) == (1.0989, 1.3699)
    assert finding.counted_share == pytest.approx(0.3 * 0.6)
    assert finding.title.endswith("; 30% of the time goes there")


def test_nodes_of_one_line_and_operation_share_its_time() -> None:
    drawing = Drawing().add("x").add("a", "to", "x", dtype="float16", source="m.py:1")
    drawing.add("b", "to", "x", dtype="float16", source="m.py:1").add("c", "relu", "a", dtype="float16")
    (finding,) = found("redundant_casts", drawing.evidence("b", "c", profile=drawing.profile(a=4.0, c=4.0)))
    assert finding.cost_share == 0.25, "one of the two casts that take half of the time together"


def test_what_two_causes_claim_is_counted_once() -> None:
    drawing = Drawing().add("x").add("wide", "to", "x", dtype="float64").add("y", "to", "wide")
    profile = drawing.profile(wide=1.0, y=1.0)
    first, second = [f for f in diagnose(drawing.evidence(profile=profile)) if f.counted_share is not None]
    assert (first.rule, second.rule) == ("redundant_casts", "float64_leftovers")
    # both casts go: 80 to 100 % of all; nothing of the one in float64 is left then
    assert (first.counted_share, second.counted_share) == (0.9, 0.0)
    assert second.cost_share == 0.5


def rewrite(name: str, *nodes: str, refused: str | None = None) -> Rewrite:
    sites = [Site(node=node, reason="done") for node in nodes]
    no = [Site(node=refused, reason="it is needed elsewhere")] if refused else []
    return Rewrite(pass_=name, applied=sites, refused=no, nodes_before=3, nodes_after=2, seconds=0.0)


def test_a_pass_that_mends_it_is_the_first_step_and_is_not_told_again() -> None:
    drawing = lookups(9)
    names = [f"lookup{index}" for index in range(9)]
    evidence = drawing.evidence(rewrites=[rewrite("merge_embedding_tables", *names)])
    (finding,) = diagnose(evidence)
    assert finding.rule == "many_embeddings"
    assert finding.steps[0] == (
        "Let an optimizing run try the pass merge_embedding_tables: it rewrites 9 of these places."
    )
    more = drawing.evidence(rewrites=[rewrite("merge_embedding_tables", *names, "elsewhere")])
    assert [f.rule for f in diagnose(more)] == ["many_embeddings", "rewritable_structure"]


def test_why_a_pass_refuses_is_evidence() -> None:
    evidence = lookups(9).evidence(rewrites=[rewrite("merge_embedding_tables", refused="lookup3")])
    (finding,) = diagnose(evidence)
    assert finding.evidence["passes_refuse"] == ["merge_embedding_tables: it is needed elsewhere"]
    assert "pass" not in finding.evidence


def test_padding_costs_only_what_is_padding() -> None:
    drawing = Drawing().add("lengths", sizes=(4,), dtype="int64").add("positions", "arange", sizes=(8,), dtype="int64")
    drawing.add("mask", "lt", "positions lengths", (4, 8), dtype="bool").add("y", "exp", "mask", (4, 8))
    values = {"constant": 2}
    given = workload([{"name": "lengths", "dtype": "int64", "shape": [4], "values": values}])
    profile = drawing.profile(positions=0.0, mask=1.0, y=3.0)
    (finding,) = found("padding_waste", drawing.evidence(workload=given, profile=profile))
    # all 4 ms are of padded positions, three quarters of which hold nothing; 30 % to all of that comes back
    assert (finding.cost_ms, finding.cost_share) == (3.0, 0.75)
    assert finding.gain is not None
    assert finding.gain.low == pytest.approx(1 / (1 - 0.225), abs=1e-4)
    assert finding.gain.high == 4.0


def broadcast(times: int, width: int = 6, others: int = 2, op: str = "expand", **cat: Any) -> Drawing:
    """A user's features, repeated so many times, beside a candidate's; then a linear layer to 4."""
    drawing = Drawing().add("u", sizes=(16, 1, width)).add("x", sizes=(16, times, others))
    drawing.add("w", "weight", sizes=(4, width + others))
    drawing.add("many", op, "u", sizes=(16, times, width), view=op == "expand")
    drawing.add("joined", "cat", "many x", sizes=(16, times, width + others), **{"dim": -1, **cat})
    return drawing.add("out", "linear", "joined w", sizes=(16, times, 4))


@pytest.mark.parametrize(("times", "op", "count"), [(3, "expand", 0), (4, "expand", 1), (50, "repeat", 1)])
def test_features_repeated_four_times_before_a_layer_are_found(times: int, op: str, count: int) -> None:
    assert len(found("user_broadcast", broadcast(times, op=op).evidence())) == count


def test_the_repeated_share_of_a_layers_products_is_what_a_profile_costs_it_at() -> None:
    drawing = broadcast(times=4)
    (finding,) = found("user_broadcast", drawing.evidence(profile=drawing.profile(out=3.0, joined=1.0)))
    # 6 of 8 features, of which three of four products are repetitions: 9/16 of three quarters of the time
    assert finding.evidence["repeated_share_of_products"] == 0.5625
    assert finding.evidence["repeated_inputs"] == {"out": "6 of 8"}
    assert finding.cost_share == pytest.approx(0.75 * 0.5625, abs=1e-4)
    assert finding.gain is not None
    assert finding.gain.high == pytest.approx(1 / (1 - 0.75 * 0.5625), abs=1e-3)


def test_what_is_joined_along_the_candidates_is_no_broadcast() -> None:
    drawing = Drawing().add("u", sizes=(16, 1, 8)).add("x", sizes=(16, 12, 8)).add("w", "weight", sizes=(4, 8))
    drawing.add("many", "expand", "u", sizes=(16, 12, 8), view=True)
    drawing.add("joined", "cat", "many x", sizes=(16, 24, 8), dim=1)
    assert found("user_broadcast", drawing.add("out", "linear", "joined w", sizes=(16, 24, 4)).evidence()) == []


def test_a_constant_that_is_repeated_and_what_is_computed_with_first_are_no_broadcast() -> None:
    def through(source: str, between: str) -> list[Finding]:
        drawing = Drawing().add("u", source, sizes=(16, 1, 8)).add("w", "weight", sizes=(4, 8))
        drawing.add("many", "expand", "u", sizes=(16, 12, 8), view=True)
        drawing.add("between", between, "many", sizes=(16, 12, 8))
        return found("user_broadcast", drawing.add("out", "linear", "between w", sizes=(16, 12, 4)).evidence())

    assert through("", "contiguous")
    assert through("weight", "contiguous") == []
    assert through("", "relu") == [], "a pass over all copies, but not of this layer"


# ---- what mending all of it gives back -------------------------------------------------------------------------------


def test_a_pass_that_mends_it_is_named_as_a_step_of_a_plan_where_the_target_can_have_it() -> None:
    drawing = attention()
    rewrites = [rewrite("fuse_attention", "weights"), rewrite("fuse_operations", "weights")]
    (on_cpu,) = found("written_out_attention", drawing.evidence(rewrites=rewrites))
    assert on_cpu.mended_by == [{"pass": "fuse_attention"}], "kernels of the library are lowered again for a processor"
    (on_gpu,) = found("written_out_attention", drawing.evidence(rewrites=rewrites, target="cuda:sm_90"))
    assert on_gpu.mended_by == [{"pass": "fuse_attention"}, {"pass": "fuse_operations"}]


def test_lines_that_a_pass_rewrites_have_a_cost_a_gain_and_a_share_that_counts() -> None:
    drawing = Drawing().add("x").add("y", "linear", "x", source="m.py:3").add("z", "relu", "y", source="m.py:4")
    site = Site(node="y", source="m.py:3", reason="done")
    one = Rewrite(pass_="split_batched_linears", applied=[site], nodes_before=3, nodes_after=2, seconds=0.0)
    evidence = drawing.evidence(rewrites=[one], profile=drawing.profile(y=6.0, z=4.0), target="cuda:sm_90")
    (finding,) = [f for f in diagnosed(evidence).findings if f.rule == "rewritable_structure"]
    assert (finding.cost_ms, finding.cost_share) == (6.0, 0.6)
    # none to two fifths of 6 of 10 ms come back
    assert finding.gain is not None and (finding.gain.low, finding.gain.high) == (1.0, round(10 / 7.6, 4))
    assert finding.mended_by == [{"pass": "split_batched_linears"}]
    assert finding.counted_share == pytest.approx(0.6 * 0.2)


def test_what_all_findings_give_back_counts_settings_after_what_rewrites_leave() -> None:
    drawing = attention()
    profile = drawing.profile(scores=5.0, scaled=1.0, weights=2.0, out=2.0)
    # 4,000 faults of 0.25 to 1.5 us: 1 to 6 of 10 ms
    profile = profile.model_copy(update={"page_faults_per_call": 4000.0, "unprofiled_ms": 10.0})
    found = diagnosed(drawing.evidence(profile=profile, target="cuda:sm_90"))
    faults = next(f for f in found.findings if f.rule == "page_faults")
    # attention gives back 30 to 90 % of 3 of 10 ms: 0.09 to 0.27, which leaves 0.91 to 0.73
    assert found.recoverable == pytest.approx((0.09 + 0.1 * 0.73, 0.27 + 0.6 * 0.91), abs=1e-3)
    assert faults.counted_share == pytest.approx(0.35 * 0.82, abs=1e-3)


def test_without_a_profile_nothing_says_what_comes_back() -> None:
    assert diagnosed(attention().evidence()).recoverable is None
