"""Reading, checking, writing and digesting the recipe document."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from optimizer.errors import FuseworksError
from optimizer.recipe import as_document, digest, dump, json_schema, load_recipe
from optimizer.spec import BackendStep, PassStep, PrecisionStep, RuntimeStep

DESIGN = """\
apiVersion: fuseworks.io/v1
kind: Recipe
metadata: {name: merge-embeddings-bf16, version: 1.2.0, title: Merge, summary: Tables, tags: [ranking, cpu]}
applies_to:
  mode: inference
  target: {kind: cpu, isa: [avx512_bf16]}
  toolchain: {torch: ">=2.11,<2.15"}
  graph: {all: [{pass: merge_embedding_tables, min_matches: 2}]}
steps:
  - {runtime: {allocator: glibc-no-trim, huge_pages: true, threads: 2}}
  - {pass: merge_embedding_tables, options: {max_bytes: 268435456}}
  - {precision: bfloat16, keep_float32: {last_linears: 1, ops: [softmax]}}
  - {backend: aot_inductor, options: {freezing: true}}
accept: {max_error_ratio: 3.0, min_speedup: 1.03}
"""
SMALL = """\
apiVersion: fuseworks.io/v1
kind: Recipe
metadata: {name: small, version: 1.0.0}
applies_to: {target: {kind: cpu}}
steps: [{backend: eager}]
"""


def refusal(text: str) -> FuseworksError:
    with pytest.raises(FuseworksError) as caught:
        load_recipe(text)
    return caught.value


def test_the_designs_recipe_loads_with_typed_steps():
    recipe = load_recipe(DESIGN)
    assert [type(s) for s in recipe.steps] == [RuntimeStep, PassStep, PrecisionStep, BackendStep]
    assert recipe.steps[0].runtime.threads == 2
    assert recipe.steps[2].keep_float32.ops == ["softmax"]
    assert recipe.applies_to.graph.all[0].min_matches == 2


def test_what_is_dumped_loads_back_equal_and_keeps_the_digest():
    recipe = load_recipe(DESIGN)
    again = load_recipe(dump(recipe))
    assert again == recipe
    assert digest(again) == digest(recipe)


def test_layers_that_stay_float32_are_typed_and_dumped_as_they_were_written():
    kept = "keep_float32: {layers: [{inputs: 8, outputs: 1}, {op: matmul, inputs: 64, nth: [0, 2]}]}"
    recipe = load_recipe(DESIGN.replace("keep_float32: {last_linears: 1, ops: [softmax]}", kept))
    assert list(map(str, recipe.steps[2].keep_float32.layers)) == ["8 to 1", "matmul 64 to any (0, 2)"]
    document = yaml.safe_load(dump(recipe))
    assert document["steps"][2]["keep_float32"] == yaml.safe_load("{" + kept + "}")["keep_float32"]
    assert load_recipe(dump(recipe)) == recipe


def test_the_digest_is_the_sha256_of_canonical_json_worked_out_by_hand():
    canonical = (
        '{"apiVersion":"fuseworks.io/v1","applies_to":{"target":{"kind":"cpu"}},"kind":"Recipe",'
        '"metadata":{"name":"small","version":"1.0.0"},"steps":[{"backend":"eager"}]}'
    )
    assert digest(load_recipe(SMALL)) == hashlib.sha256(canonical.encode()).hexdigest()


def test_order_of_keys_spacing_and_spelt_out_defaults_do_not_change_the_digest():
    document = yaml.safe_load(SMALL)
    shuffled = dict(reversed(list(document.items()))) | {"accept": {"min_speedup": 1, "max_error_ratio": 3}}
    assert digest(load_recipe(json.dumps(shuffled))) == digest(load_recipe(SMALL))


def test_any_changed_option_changes_the_digest():
    assert digest(load_recipe(DESIGN.replace("268435456", "268435457"))) != digest(load_recipe(DESIGN))


def test_the_json_schema_accepts_the_recipe_and_refuses_an_unknown_field():
    validator = jsonschema.Draft202012Validator(json_schema())
    document = as_document(load_recipe(DESIGN))
    validator.validate(document)
    assert list(validator.iter_errors({**document, "extra": 1}))
    assert list(validator.iter_errors({**document, "steps": [{"backed": "eager"}]}))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("threads: 2", "threads: 0"), "steps[0].runtime.threads"),
        (("{backend: aot_inductor,", "{backends: aot_inductor,"), "steps[3]"),
        (("huge_pages", "hugepages"), "steps[0].runtime.hugepages"),
        (("name: merge-embeddings-bf16", "name: Merge Embeddings"), "metadata.name"),
        (("version: 1.2.0", "version: 1.2"), "metadata.version"),
        (("fuseworks.io/v1", "fuseworks.io/v2"), "apiVersion"),
        (('">=2.11,<2.15"', '"newest"'), "applies_to.toolchain"),
        (("min_matches: 2", "min_matches: 0"), "applies_to.graph.all[0].min_matches"),
        (("min_speedup: 1.03", "min_speedup: .inf"), "accept.min_speedup"),
        (("max_bytes: 268435456", "max_bytes: .nan"), "steps"),
    ],
)
def test_an_invalid_field_is_named_by_its_path(change: tuple[str, str], field: str):
    assert change[0] in DESIGN
    error = refusal(DESIGN.replace(*change))
    assert error.id == "recipe:user:invalid"
    assert error.context["field"] == field
    assert field in error.remedy


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("[{backend: eager}, {precision: bfloat16}]", "comes last"),
        ("[{precision: float32}]", "exactly one backend"),
        ("[{backend: eager}, {backend: eager}]", "exactly one backend"),
        ("[{precision: float32}, {precision: bfloat16}, {backend: eager}]", "at most one precision"),
        ("[{runtime: {}}, {runtime: {}}, {backend: eager}]", "at most one runtime"),
        ("[{pass: a, backend: eager}]", "exactly one of the keys"),
        ("[]", "at least 1"),
    ],
)
def test_steps_in_an_order_that_makes_no_sense_are_refused(steps: str, words: str):
    error = refusal(SMALL.replace("[{backend: eager}]", steps))
    assert words in error.message


def test_a_condition_on_a_pass_that_is_no_step_is_refused():
    error = refusal(SMALL.replace("{kind: cpu}}", "{kind: cpu}, graph: {all: [{pass: fuse}]}}"))
    assert "fuse is a condition but not among the steps" in error.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("a: 1\na: 2\n", "repeated"),
        ("a: !!python/object/apply:os.system ['true']\n", "could not determine a constructor"),
        ("1: 2\nb: 3\n", "keys must be text"),
        ("a: [\n", "expected"),
        ("[" * 5_000 + "\n", "nested too deeply"),
    ],
)
def test_dangerous_or_broken_yaml_is_refused_with_its_reason(text: str, words: str):
    error = refusal(text)
    assert error.id == "recipe:user:not-yaml"
    assert words in error.message


def test_the_line_of_a_yaml_error_is_named(tmp_path: Path):
    file = tmp_path / "r.yaml"
    file.write_text("kind: Recipe\nkind: Recipe\n")
    with pytest.raises(FuseworksError) as caught:
        load_recipe(file)
    assert caught.value.place == f"{file}:2"


def test_a_date_stays_text():
    error = refusal(SMALL.replace("1.0.0", "2024-01-01"))
    assert error.context["field"] == "metadata.version"


@pytest.mark.parametrize("content", [b"x: '" + b"a" * (257 << 10) + b"'", b"\xff\xfe", None])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None):
    file = tmp_path / "r.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FuseworksError) as caught:
        load_recipe(file)
    assert caught.value.id == "recipe:user:unreadable"


def test_a_text_that_is_no_mapping_is_refused():
    assert refusal("- 1\n- 2\n").context["field"] == "(document)"
