"""The whole story as two people live it: a model is made faster, its recipe travels to another business unit, and what
it did there comes back as evidence. On real processes, in both languages; only the optimizer is a stand-in.

FUSEWORKS_SCREENSHOTS=1 takes the pictures of docs/story.md.
"""

from __future__ import annotations

import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.story_platform import Site, platform
from tests.browser.story_visitor import NewVisitor, Visitor, visiting
from tests.browser.support import LANGUAGES, ROOT

# Of each story two teams of two units, and models whose files have names of their own.
TEAMS = {"en": ("ads-ranking", "search-ranking"), "zh-hans": ("ads-retrieval", "search-relevance")}
MODELS = {"en": ("Feed ranking", "Query ranking"), "zh-hans": ("视频排序", "查询相关性")}
STEMS = {"en": ("feed_ranking", "query_ranking"), "zh-hans": ("video_ranking", "query_relevance")}
TWO_PIECES_BYTES = 17 << 20


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with platform() as started:
        yield started


@pytest.fixture
def visitor(browser: Browser, site: Site) -> Iterator[NewVisitor]:
    with visiting(browser, site) as new:
        yield new


def upload(folder: Path, stem: str, weights_bytes: int = 0) -> Path:
    """The DIN of the examples in a zip, with weights beside it if wanted."""
    path = folder / f"{stem}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(ROOT / "examples" / "din.py", "model.py")
        if weights_bytes:
            archive.writestr("weights.safetensors", bytes(weights_bytes))
    return path


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_recipe_found_by_one_unit_serves_another_one(visitor: NewVisitor, language: str, tmp_path: Path) -> None:
    owner = visitor(language)
    own_team, other_team = TEAMS[language]
    own_model, other_model = MODELS[language]
    own_stem, other_stem = STEMS[language]

    owner.signs_in(own_team)
    a_model_is_made_faster(owner, own_model, upload(tmp_path, own_stem, TWO_PIECES_BYTES))
    recipe = its_recipe_is_published(owner)
    owner.signs_out()

    owner.signs_in(other_team)
    owner.switches_language_and_back()
    it_is_found_in_the_catalog(owner, own_stem)
    it_is_applied(owner, other_model, upload(tmp_path, other_stem), recipe)
    owner.signs_out()

    owner.signs_in(own_team)
    the_evidence_names_nobody(owner, own_model, other_model, recipe)


def a_model_is_made_faster(owner: Visitor, model: str, file: Path) -> None:
    say, page = owner.say, owner.page
    expect(page.get_by_role("heading", name=say("Make your first model faster"))).to_be_visible()
    owner.picture("1-dashboard")
    owner.link(say("Upload a model")).first.click()
    owner.uploads_in_pieces(file, model)
    owner.sees_inspection(model)
    owner.chooses_kind(model, "ranking")
    owner.sees_inspection(model)
    owner.picture("3-version")
    owner.button(say("Optimize")).click()
    owner.watches_run("optimize", f"{model} v1", file.stem, measured="2.60×")

    owner.link(say("Before and after")).click()
    owner.sees_heading(say("{speedup} as fast as the original", speedup="3.04×"))
    headline = owner.section(say("Under equal settings"))
    for text in ("3.04×", say("faster"), say("99 % interval"), "[2.50, 3.71]"):
        expect(headline).to_contain_text(text)
    chart = owner.section(say("Latency of single calls")).locator("[data-island=ecdf] svg")
    expect(chart).to_be_visible()
    assert chart.locator("path").count() > 5, "five contenders, and axes"
    owner.picture("5-comparison")
    chart.scroll_into_view_if_needed()
    owner.picture("6-latencies")

    with page.expect_download() as downloading:
        owner.link(say("Download the package")).click()
    download = downloading.value
    assert download.suggested_filename == f"{model.lower().replace(' ', '-')}-v1-package.zip"
    with zipfile.ZipFile(download.path()) as package:
        assert package.namelist() == ["run.py", "manifest.json"]


def its_recipe_is_published(owner: Visitor) -> str:
    """The address of the recipe."""
    say, page = owner.say, owner.page
    owner.button(say("Save as recipe")).click()
    expect(page.get_by_text(say("Saved as a draft. Publish it to share it."))).to_be_visible()
    state = page.locator("main [data-word]").first
    expect(state).to_have_text(say("draft"))
    owner.link(say("Publish")).click()
    expect(page.get_by_text(say("Publish to"))).to_be_visible()
    page.get_by_role("radio", name=say("Company")).check()
    owner.button(say("Publish")).click()
    expect(page.get_by_text(say("Published. Its document will never change."))).to_be_visible()
    expect(state).to_have_text(say("published"))
    expect(owner.evidence()).to_have_count(1)
    assert owner.watched.barriers() == []
    owner.picture("7-recipe")
    return page.url


def it_is_found_in_the_catalog(owner: Visitor, stem: str) -> None:
    say, page = owner.say, owner.page
    page.get_by_role("navigation").get_by_role("link", name=say("Catalog"), exact=True).click()
    owner.sees_heading(say("Recipe catalog"))
    page.get_by_label(say("Search"), exact=True).fill(f"{stem.partition('_')[0]} attention")
    owner.button(say("Search")).click()
    expect(page.get_by_text(say("1 recipe"))).to_be_visible()
    (found,) = page.locator("article").all()
    gain = say("at least {gain} in the best of 1 faster outcomes, 1 in all", gain="2.50×")
    for text in ("Advertising", "split_target_attention", gain):
        expect(found).to_contain_text(text)
    owner.picture("8-catalog")
    found.get_by_role("link").click()


def it_is_applied(owner: Visitor, model: str, file: Path, recipe: str) -> None:
    """To a model that must be uploaded first."""
    say, page = owner.say, owner.page
    expect(page).to_have_url(recipe)
    expect(owner.evidence()).to_have_count(1)
    expect(owner.evidence()).to_contain_text(say("a model of another team ({family})", family=say("ranking")))
    owner.link(say("Apply to my model")).click()
    expect(page.get_by_text(say("You have no model to apply it to"))).to_be_visible()
    owner.link(say("Upload a model")).click()
    owner.uploads(file, model)
    owner.sees_inspection(model)
    owner.chooses_kind(model, "search")

    page.goto(recipe)
    owner.link(say("Apply to my model")).click()
    chosen = page.get_by_label(say("Model version")).locator("option:checked")
    expect(chosen).to_contain_text(f"{model} v1")
    owner.button(say("Start the replay")).click()
    owner.watches_run("replay", f"{model} v1", file.stem)

    page.locator("#run-recipe").click()
    expect(owner.evidence()).to_have_count(2)
    own = owner.evidence().filter(has_text=model)
    for text in (say("faster"), "2.44×", "[2.00, 2.97]", "cpu"):
        expect(own).to_contain_text(text)


def the_evidence_names_nobody(owner: Visitor, own_model: str, other_model: str, recipe: str) -> None:
    owner.page.goto(recipe)
    expect(owner.evidence()).to_have_count(2)
    expect(owner.evidence().filter(has_text=own_model)).to_contain_text("3.04×")
    elsewhere = owner.evidence().filter(has_not_text=own_model)
    family = owner.say("a model of another team ({family})", family=owner.say("search"))
    for text in (owner.say("faster"), "2.44×", "[2.00, 2.97]", family):
        expect(elsewhere).to_contain_text(text)
    assert other_model not in owner.page.content()
    owner.picture("10-evidence")


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_pickle_is_refused_and_the_page_says_how_to_export(
    visitor: NewVisitor, language: str, tmp_path: Path
) -> None:
    owner = visitor(language)
    say, page = owner.say, owner.page
    pickle = tmp_path / "ranker.pkl"
    pickle.write_bytes(b"\x80\x04N.")
    owner.signs_in(TEAMS[language][0])
    page.goto("/uploads/new/")
    owner.fills_in_upload(pickle, "Ranker")
    owner.button(say("Upload")).click()
    refusal = page.get_by_role("alert")
    expect(refusal).to_contain_text(say("which Fuseworks does not read"))
    expect(refusal).to_contain_text("torch.export.save(torch.export.export(")
    expect(page.get_by_text(say("TorchScript and pickles"))).to_be_visible()
    expect(page.get_by_label(say("Name of the new model"))).to_have_value("Ranker")


def test_without_javascript_a_pickle_is_refused_with_the_way_to_export(visitor: NewVisitor, tmp_path: Path) -> None:
    owner = visitor("en", java_script_enabled=False)
    owner.watched.expected.append("422")
    page = owner.page
    pickle = tmp_path / "ranker.pkl"
    pickle.write_bytes(b"\x80\x04N.")
    owner.signs_in("ads-ranking")
    page.goto("/uploads/new/")
    owner.fills_in_upload(pickle, "Ranker")
    owner.button("Upload").click()
    refusal = page.get_by_role("alert")
    expect(refusal).to_contain_text("This is a pickle, which Fuseworks does not read.")
    expect(refusal).to_contain_text("torch.export.save(torch.export.export(")
    expect(page.get_by_label("Name of the new model")).to_have_value("Ranker")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_wrong_password_is_told_and_the_right_one_still_works(visitor: NewVisitor, site: Site, language: str) -> None:
    owner = visitor(language)
    email = site.owners[TEAMS[language][0]]
    owner.page.goto("/runs/")
    owner.types_password(email, f"{site.password}!")
    told = owner.say("The e-mail address or the password is wrong.")
    expect(owner.page.get_by_role("alert")).to_have_text(told)
    expect(owner.page.get_by_label(owner.say("E-mail address"))).to_have_value(email)
    owner.types_password(email, site.password)
    owner.sees_heading(owner.say("Runs"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_address_of_another_team_reads_like_one_that_never_was(visitor: NewVisitor, language: str) -> None:
    own_team, other_team = TEAMS[language]
    owner = visitor(language)
    owner.watched.expected.append("404")
    owner.signs_in(own_team)
    told = []
    for address in (f"/teams/{other_team}/", "/teams/no-such-team/", f"/runs/{uuid.uuid4()}/"):
        response = owner.page.goto(address)
        assert response is not None and response.status == 404
        owner.sees_heading(owner.say("Not found"))
        told.append(owner.page.locator("main").inner_text())
    assert told[0] == told[1]
