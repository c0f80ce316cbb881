"""The same by other means: a run as the command would ask for it again."""

from __future__ import annotations

import shlex

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.recipes.services import recipe_save
from fuseworks.results.snippets import as_command
from fuseworks.runs.models import Run
from tests.platform.factories import make_member
from tests.platform.recipes.documents import document as recipe_document
from tests.platform.results.support import document, finished_run, two_versions

pytestmark = pytest.mark.django_db


def lines(run: Run, **seen: object) -> list[str]:
    asked = {"has_package": False, "against": None, "applied": None, **seen}
    return [snippet.lines for snippet in as_command(run, "http://site.example/", **asked)]  # type: ignore[arg-type]


def test_an_optimize_run_is_asked_again_with_its_budget() -> None:
    run = finished_run(document("din"))
    team, name = run.team.slug, shlex.quote(run.version.model.name)
    assert lines(run)[-1] == f"fuseworks submit din.py --wait --team {team} --name {name} --budget 290s"


def test_and_with_what_its_policy_says_beyond_the_defaults() -> None:
    run = finished_run(document("din"))
    policy = {"budget_s": 90.5, "max_pairs": 12, "max_error_ratio": 5, "precisions": ["float32", "bfloat16"]}
    run.policy = {**policy, "backends": ["openvino", "eager"]}
    more = "--budget 90.5s --max-pairs 12 --max-error-ratio 5 --precision float32 --precision bfloat16"
    assert lines(run)[-1].endswith(f" {more} --backend openvino --backend eager")


def test_a_replay_is_asked_again_by_recipe_and_version_by_whoever_may_see_the_recipe() -> None:
    version, _ = two_versions()
    owner = Actor(make_member(version.model.team, "owner"))
    recipe = recipe_save(actor=owner, team=version.model.team, document=recipe_document())
    run = finished_run({**document("din"), "purpose": "replay"}, version, recipe_version=recipe)
    asked = f"fuseworks recipe apply {recipe.pk} {version.pk} --wait --budget 290s"
    assert lines(run, applied=recipe)[-1] == asked
    assert not any(asked in line for line in lines(run))
