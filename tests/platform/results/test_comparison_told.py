"""What the comparison page says in words: why nothing is offered, what disturbed the measurement, what holds a model
back."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fuseworks.core import figures
from fuseworks.runs.models import Run
from tests.platform.results.support import document, finished_run
from tests.platform.results.test_comparison_page import address, reader, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return finished_run(document("din"))


def undecided(name: str = "dlrm", **observed: Any) -> Run:
    found = document(name)
    found.update(verdict="cannot_tell", offered=False, recipe=None)
    found["comparisons"][0]["verdict"] = "cannot_tell"
    found["conditions"]["observed"].update(observed)
    return finished_run(found)


def test_its_sentences_end_as_the_readers_language_ends_them() -> None:
    run = undecided()
    client = reader(run)
    client.cookies["django_language"] = "zh-hans"
    page = text(client, address(run))
    assert "无法判定最佳候选是否比原模型更快。" in page
    assert not re.search(r"[\u4e00-\u9fff]\. ", page)


def test_a_run_that_cannot_tell_says_that_nothing_is_offered_and_why():
    run = undecided()
    page = text(reader(run), address(run))
    told = "Nothing is offered: whether the best candidate is faster than the original cannot be told."
    assert f"{told} The best candidate is aot_inductor itself, an engine without our rewrites." in page
    assert "What is offered is" not in page and "Winner" not in page.partition("Candidates")[0]
    assert "Best candidate, not offered Candidate baseline" in page


def test_what_is_slower_as_deployed_is_not_offered_and_says_so():
    found = document("din")
    found["offered"] = False
    next(c for c in found["comparisons"] if not c["same_settings"])["verdict"] = "slower"
    run = finished_run(found)
    page = text(reader(run), address(run))
    assert "Nothing is offered: as deployed it is slower than the original in its default settings" in page


def test_what_is_offered_is_not_called_nothing(run):
    assert "Nothing is offered" not in text(reader(run), address(run))


@pytest.mark.parametrize(("share", "busy"), [(0.62, True), (0.04, False)])
def test_a_verdict_that_cannot_tell_stands_beside_what_disturbed_it(share, busy):
    shares = {"baseline": 0.02, "winner": share}
    run = undecided(disturbed_shares=shares, noise_floor=0.154, load_averages=[3.0, 7.25])
    page = text(reader(run), address(run))
    told = f"Up to {share * 100:.1f} % of a contender&#x27;s bursts had to wait for a core, the noise floor is 15.4 %, "
    assert f"{told}and the load was up to 7.2 on 2 cores." in page
    assert ("The cores were busy with other work: measure again on a quiet machine." in page) is busy


def test_the_evidence_of_a_finding_is_told_in_words_and_units(run):
    evidence = {"attainable_share": 0.6279, "predicted_cost_ms": 3.284, "page_faults_per_call": 6568.0, "module": None}
    run.result.document["findings"] = [{"rule": "r", "severity": "low", "title": "T", "evidence": evidence}]
    run.result.save()
    page = text(reader(run), address(run))
    assert "of the machine&#x27;s roof: 62.8 %, estimated cost: 3.28 ms, page faults a call: 6,568" in page
    assert "attainable_share" not in page and "module:" not in page


@pytest.mark.parametrize(("unprofiled_ms", "disturbed"), [(17.8, True), (17.6, False)])  # judged: 11.8 ms
def test_a_profile_of_a_busy_moment_is_marked(run, unprofiled_ms, disturbed):
    run.result.document["profile"].update(profiled_ms=20.0, unprofiled_ms=unprofiled_ms)
    run.result.save()
    page = text(reader(run), address(run))
    assert "These times are of another process at another moment: judged was a median of 11.8 ms." in page
    assert ("Taken under disturbance" in page) is disturbed


def test_what_cannot_be_told_is_the_headline_and_its_figure_is_no_larger_than_its_interval():
    run = undecided()
    page = reader(run).get(address(run)).content.decode()
    first = page.partition('aria-labelledby="headline-equal_settings"')[2].partition("</section>")[0]
    assert re.findall(r'<p class="headline mb-1">([^<]*)</p>', first) == ["cannot tell"]
    figure = figures.speedup(run.result.speedup)
    assert figure in first.partition("headline mb-1")[2].partition("</p>")[2]


def test_what_can_be_told_has_its_figure_as_the_headline(run):
    page = reader(run).get(address(run)).content.decode()
    first = page.partition('aria-labelledby="headline-equal_settings"')[2].partition("</section>")[0]
    assert re.findall(r'<p class="headline mb-1">([^<]*)</p>', first) == [figures.speedup(run.result.speedup)]
