"""The example of a recipe: valid, of passes and a backend that there are, and the one that the documentation shows."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import yaml

from optimizer.recipe import json_schema, load_recipe
from optimizer.recipe.example import EXAMPLE
from optimizer.spec import BackendStep, PassStep

ROOT = Path(__file__).parents[3]


def test_it_is_valid_by_the_schema_and_by_the_reader() -> None:
    jsonschema.validate(yaml.safe_load(EXAMPLE), json_schema())
    recipe = load_recipe(EXAMPLE)
    assert (recipe.metadata.name, recipe.metadata.version) == ("openvino-split-target-attention", "1.0.0")
    assert "#" not in EXAMPLE


def test_its_passes_and_its_backend_are_there() -> None:
    steps = load_recipe(EXAMPLE).steps
    files = [f"optimizing/passes/{step.pass_}.py" for step in steps if isinstance(step, PassStep)]
    files += [f"compiling/backends/{step.backend}.py" for step in steps if isinstance(step, BackendStep)]
    assert files == ["optimizing/passes/split_target_attention.py", "compiling/backends/openvino.py"]
    assert all((ROOT / "optimizer" / file).is_file() for file in files)


def test_the_documentation_shows_it_word_for_word() -> None:
    assert f"```yaml\n{EXAMPLE}```\n" in (ROOT / "docs" / "recipes.md").read_text()
