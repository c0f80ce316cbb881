"""Sentences of ours that fill an error's text: on a page in the reader's language, in the API English."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from django.utils import translation
from django.utils.functional import Promise

from fuseworks.core.telling import message_of
from fuseworks.recipes.query import query_of
from fuseworks.registry.models import ModelVersion
from fuseworks.results.services import not_measurable
from fuseworks.runs.errors import wrong_field
from tests.platform import factories

PLATFORM = Path(__file__).resolve().parents[3] / "platform" / "fuseworks"
# No page calls these: they read headers, or what only a token can be refused.
OF_THE_API = ("api/", "accounts/idempotency.py", "accounts/services/teams.py", "accounts/services/closing.py")


def sentences_of(path: Path) -> list[str]:
    """`text` and `reason` of a PlatformError that hold an English sentence as it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("PlatformError", "wrong_field")):
            continue
        for given in [*node.args[1:], *(k.value for k in node.keywords if k.arg in ("text", "reason"))]:
            if isinstance(given, ast.Constant) or (
                isinstance(given, ast.JoinedStr)
                and any(isinstance(part, ast.Constant) and str(part.value).strip(": ") for part in given.values)
            ):
                found.append(path.relative_to(PLATFORM).as_posix())
    return found


def test_no_error_that_a_page_can_show_is_filled_with_an_english_sentence() -> None:
    found = [place for path in sorted(PLATFORM.rglob("*.py")) for place in sentences_of(path)]
    left = [place for place in found if not any(part in place for part in OF_THE_API)]
    assert left == ["registry/workload_text.py"]  # the YAML reader's own words follow


@pytest.mark.django_db
def test_a_wrong_field_is_told_by_reader_and_english_in_the_api(version: ModelVersion) -> None:
    with translation.override("zh-hans"):
        page = factories.client_for(factories.make_member(version.model.team))
        api = factories.api_for(factories.make_member(version.model.team))
        asked = {"version": str(version.pk), "purpose": "replay"}
        told = api.post("/api/v1/runs/", asked, headers={"accept-language": "zh-hans"}).json()
        assert told["title"] == "recipe_version: replay needs the version of a recipe"
        assert told["fields"] == {"recipe_version": ["replay needs the version of a recipe"]}
        assert "需要指定配方的版本" in told["told"]
        catalog = page.get("/catalog/?sort=odd", headers={"accept-language": "zh-hans"}).content.decode()
    assert "sort 只能是以下之一" in catalog and "sort is one of" not in catalog


@pytest.mark.django_db
def test_why_two_runs_cannot_be_measured_is_told_by_reader(version: ModelVersion) -> None:
    run = factories.make_run(version)
    reason = not_measurable(run, run)
    assert isinstance(reason, Promise)
    with translation.override("en"):
        assert str(reason) == "both are of one version, which would be measured against itself"
    with translation.override("zh-hans"):
        assert str(reason) == "两者属于同一版本，等于与自身比较"


def test_an_error_made_for_a_chinese_reader_still_reads_english_to_everybody_else() -> None:
    with translation.override("zh-hans"), pytest.raises(Exception) as caught:
        query_of({"min_gain": "much"})
    assert "min_gain is a number such as 1.2, not 'much'" in str(caught.value)
    with translation.override("zh-hans"):
        error = wrong_field("policy", "what another said")
        assert message_of(error).endswith("what another said")
