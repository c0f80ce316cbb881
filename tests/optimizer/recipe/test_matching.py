"""Whether a recipe applies, and the recipe that a winner leaves."""

from __future__ import annotations

import pytest

from optimizer.recipe import Machine, check_graph, check_target, load_recipe, recipe_from_candidate
from optimizer.recipe.matching import minor_range, slug
from optimizer.result import Rewrite, Site
from optimizer.spec import BackendStep, Mode, PassStep, PrecisionStep, RuntimeSettings, RuntimeStep
from tests.optimizer.recipe.test_document import DESIGN

MACHINE = Machine("cpu", ["avx2", "avx512_bf16"], {"torch": "2.13.0+cpu", "openvino": "2026.4.1"})


def rewrite(name: str, applied: int, refused: tuple[Site, ...] = (), **options: object) -> Rewrite:
    sites = [Site(node=f"n{i}", reason="done") for i in range(applied)]
    return Rewrite(
        pass_=name, options=options, applied=sites, refused=list(refused), nodes_before=9, nodes_after=8, seconds=0.1
    )


def test_the_recipe_applies_to_a_machine_that_has_all_it_asks_for():
    assert check_target(load_recipe(DESIGN), MACHINE) is None


@pytest.mark.parametrize(
    ("machine", "mode", "words"),
    [
        (MACHINE, Mode.TRAINING, "made for inference, and this workload is training"),
        (Machine("cuda:sm_90", [], {}), Mode.INFERENCE, "this run's target is cuda:sm_90"),
        (Machine("cpu", ["avx2"], {"torch": "2.13.0"}), Mode.INFERENCE, "ISA features avx512_bf16"),
        (Machine("cpu", ["avx512_bf16"], {}), Mode.INFERENCE, "not installed"),
        (Machine("cpu", ["avx512_bf16"], {"torch": "2.15.0"}), Mode.INFERENCE, "torch >=2.11,<2.15, and 2.15.0 is"),
    ],
)
def test_the_first_thing_that_does_not_hold_is_the_reason(machine: Machine, mode: Mode, words: str):
    assert words in (check_target(load_recipe(DESIGN), machine, mode) or "")


def test_a_gpu_arch_in_the_isa_list_is_answered_by_the_target():
    recipe = load_recipe(DESIGN.replace("{kind: cpu, isa: [avx512_bf16]}", "{kind: cuda, isa: [sm_90]}"))
    assert check_target(recipe, Machine("cuda:sm_90", [], {"torch": "2.13.0"})) is None
    assert "sm_90" in (check_target(recipe, Machine("cuda:sm_80", [], {"torch": "2.13.0"})) or "")


def test_the_graph_is_accepted_when_the_pass_applied_often_enough():
    assert check_graph(load_recipe(DESIGN), [rewrite("merge_embedding_tables", 2)]) is None


def test_too_few_matches_are_refused_with_the_passes_own_words_and_nodes():
    refused = (Site(node="embedding_7", source="model.py:12", reason="rows are not equally wide"),)
    reason = check_graph(load_recipe(DESIGN), [rewrite("merge_embedding_tables", 1, refused)])
    assert reason == (
        "merge_embedding_tables matched once and needs 2: rows are not equally wide at embedding_7 (model.py:12)"
    )


def test_many_refusals_are_cut_short_and_counted():
    refused = tuple(Site(node=f"e{i}", reason="no") for i in range(7))
    reason = check_graph(load_recipe(DESIGN), [rewrite("merge_embedding_tables", 0, refused)])
    assert reason is not None
    assert reason.endswith("no at e3, and 3 more")


def test_a_pass_without_refusals_or_never_run_is_told_apart():
    recipe = load_recipe(DESIGN)
    assert "nothing in this graph looks like its pattern" in (
        check_graph(recipe, [rewrite("merge_embedding_tables", 0)]) or ""
    )
    assert "was not run" in (check_graph(recipe, []) or "")


def test_a_condition_with_options_counts_only_runs_with_these_options():
    recipe = load_recipe(DESIGN.replace("min_matches: 2}", "min_matches: 2, options: {max_bytes: 7}}"))
    assert check_graph(recipe, [rewrite("merge_embedding_tables", 2, max_bytes=8)]) is not None
    assert check_graph(recipe, [rewrite("merge_embedding_tables", 2, max_bytes=7, more=1)]) is None


STEPS = [
    RuntimeStep(runtime=RuntimeSettings(allocator="glibc-no-trim")),
    PassStep(pass_="split", options={"a": 1}),
    PassStep(pass_="idle"),
    BackendStep(backend="openvino", options={"precision": "f32"}),
]


def test_a_winners_recipe_keeps_the_steps_that_changed_something_and_asks_for_their_matches():
    rewrites = [rewrite("split", 3, a=1, b="default"), rewrite("idle", 0)]
    recipe = recipe_from_candidate(STEPS, rewrites, MACHINE, name="DIN Serving!")
    assert recipe.metadata.name == "din-serving"
    assert [getattr(s, "pass_", None) for s in recipe.steps] == [None, "split", None]
    assert recipe.steps[1].options == {"a": 1, "b": "default"}
    assert [(c.pass_, c.min_matches) for c in recipe.applies_to.graph.all] == [("split", 1)]
    assert recipe.applies_to.target.isa == []
    assert recipe.applies_to.toolchain == {"torch": ">=2.13,<2.14", "openvino": ">=2026.4,<2026.5"}
    assert check_graph(recipe, rewrites) is None
    assert check_target(recipe, MACHINE) is None


def test_int8_asks_for_the_weakest_feature_that_sums_its_products():
    steps = [PrecisionStep(precision="int8"), BackendStep(backend="aot_inductor")]
    both = Machine("cpu", ["amx_int8", "avx512_bf16", "avx512_vnni"], {"torch": "2.13.0"})
    assert recipe_from_candidate(steps, [], both, name="x").applies_to.target.isa == ["avx512_vnni"]


def test_bfloat16_asks_for_the_weakest_native_feature_of_the_machine():
    steps = [PrecisionStep(precision="bfloat16"), BackendStep(backend="aot_inductor")]
    both = Machine("cpu", ["amx_bf16", "avx512_bf16", "avx2"], {"torch": "2.13.0"})
    assert recipe_from_candidate(steps, [], both, name="x").applies_to.target.isa == ["avx512_bf16"]


def test_version_ranges_and_slugs():
    assert minor_range("2.13.0+cpu") == ">=2.13,<2.14"
    assert minor_range("3") == ">=3.0,<3.1"
    assert slug("  ***  ") == "recipe"
