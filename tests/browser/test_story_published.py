"""A published model with its own weights goes through the pages and the real optimizer: Silero's voice activity
detector, an ONNX file out of a wheel. Minutes: `make test-slow`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.story_platform import platform
from tests.browser.story_visitor import Visitor, visiting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FILE = "silero_vad_16k_sequence.onnx"
BUDGET_S = 60
INSPECTED_MS, ENDED_MS = 300_000, 1_200_000
# What a run that came to its end may say; each is an answer.
ANSWERS = re.compile(r"\d× as fast as the original|No faster recipe found|Cannot tell")


def published_model() -> Path:
    """Found without importing the package."""
    spec = importlib.util.find_spec("silero_vad")
    assert spec is not None and spec.origin is not None, "the test extra brings silero-vad"
    return Path(spec.origin).parent / "data" / FILE


def test_a_published_onnx_model_ends_with_an_honest_answer(browser: Browser) -> None:
    with platform(coordinator=None) as site, visiting(browser, site) as new:
        owner = new("en")
        owner.signs_in("search-ranking")
        page = owner.page
        page.goto("/uploads/new/")
        owner.uploads(published_model(), "Voice activity")
        saves = owner.button("Save as a new revision")
        expect(saves.or_(page.get_by_role("alert"))).to_be_visible(timeout=INSPECTED_MS)
        expect(saves).to_be_visible()
        expect(owner.section("What is in it")).to_contain_text("309,633")
        expect(owner.section("Workload: how it is called")).to_contain_text("float32 [sequence_length, 576]")

        page.get_by_label("Time budget (seconds of work)").first.fill(str(BUDGET_S))
        owner.button("Optimize").click()
        status = page.locator("#run-status [data-word]").first
        expect(status).to_have_attribute("data-word", "succeeded", timeout=ENDED_MS)
        answers(owner)


def answers(owner: Visitor) -> None:
    owner.link("Before and after").click()
    expect(owner.page.get_by_role("heading", level=1)).to_have_text(ANSWERS)
    candidates = owner.section("Candidates")
    expect(candidates).to_contain_text("the upload as its own framework runs it")
    expect(candidates.locator("[data-word=passed]").first).to_be_visible()
