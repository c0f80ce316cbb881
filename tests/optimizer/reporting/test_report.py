"""The report: everything is in it, nothing is loaded, and foreign text stays text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from optimizer.reporting.report import MAX_OPERATIONS, render, write_report
from optimizer.result import Result
from tests.optimizer.reporting.sample import NUMERICS, evaluation, result

VOID = {"meta", "br", "hr", "img", "input", "link", "line", "circle", "polyline", "path", "rect"}


class Page(HTMLParser):
    """Collects the visible text and the tags, and checks that each one is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


SAMPLES = {
    "baseline": [8.0 + i / 100 for i in range(400)],
    "aot_inductor + rewrites": [5.0 + i / 200 for i in range(400)],
}


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render(result(), SAMPLES))


@pytest.mark.parametrize(
    "words",
    [
        "1.62× faster than the original",
        "8.20 ms → 5.06 ms",
        "99 % interval 1.55 to 1.69; verdict: faster",
        "2.31× 99 % interval 2.20 to 2.43; original in its default settings",
        "best engine without our rewrites: openvino 1.11×",
        "the winner over it: 1.46×",
        "unsupported by backend",
        "EmbeddingBag has no export <b>&",
        "ctr: error 3.1e-2, 1.1e-5 allowed",
        "pass split_target_attention",
        "runtime allocator=glibc-no-trim, huge_pages=True",
        "pass split_target_attention: measured on aot_inductor + all rewrites, which the winner was made from",
        "precision bfloat16: not measured, the budget was spent",
        "zeros handed back negative control passed caught, as it must be",
        "din.py:41 split [q, k, q-k, q*k] in two",
        "din.py:33 the tables differ in width",
        "(changes the order of sums)",
        "12800×144, 80×144",
        "72.0 %",
        "the profiler made the call 1.08× as long",
        "6,568 page faults a call",
        "batch: 1 to 2048, served at 256",
        "12 pairs of fresh processes",
        "The noise floor, how far the baseline came out from itself in the same sets, was 1.2 %",
        "libraries.torch 2.13.0",
        "apiVersion: fuseworks.io/v1",
        "Offered: a recipe and a package.",
        "max_latency_ms of the workload is not heeded yet stopped after 7 of 18 sets",
        "7.40 ms (screening)",
        "0.99×, no difference beyond the noise; 6 pairs, beside a noise floor of 3.1 %",
        "large edge not judged not judged: too slow there",
        "2.40e-07 of the spread 64 passed",
        "Latency of single calls",
        "(400 calls)",
    ],
)
def test_the_report_says(page: Page, words: str):
    assert words in page.text


def test_nothing_is_loaded_from_anywhere(page: Page):
    html = render(result(), SAMPLES)
    assert {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object", "form", "a"} == set()
    assert not re.search(r"https?://|url\(|@import|javascript:", html)
    policy = [attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


@pytest.mark.parametrize("field", ["reason", "name", "step"])
def test_what_the_model_wrote_stays_text(field: str):
    evil = "<script>alert(1)</script>\"'><img src=x>"
    steps = [{"pass": evil}, {"backend": "eager"}]
    candidate = evaluation(evil if field == "name" else "c", "crashed", steps if field == "step" else None, reason=evil)
    ablation = [{"step": {"pass": evil}, "gain": 1.1, "interval": {"low": 1.0, "high": 1.2}}]
    html = render(result(candidates=[candidate], summary=evil, ablation=ablation, winner=None), {evil: [1.0, 2.0, 3.0]})
    assert "<script" not in html
    assert "<img" not in html
    assert evil.split('"')[0] in Page(html).text


def test_a_judged_time_is_not_marked_as_a_screening(page: Page):
    assert "5.06 ms (screening)" not in page.text


def test_the_original_is_no_peer_and_neither_side_of_a_comparison_is():
    text = Page(render(result(), {})).text
    assert "openvino (peer)" in text and "baseline (peer)" not in text
    compared = Page(render(result(purpose="compare", winner=None), {})).text
    assert "(peer)" not in compared and "screenings and no verdicts" not in compared
    assert "What is marked was judged" in text and "What is marked was judged" not in compared


def test_nothing_offered_is_said_even_where_a_winner_has_figures():
    text = Page(render(result(verdict="same", offered=False), {})).text
    assert "Nothing is offered" in text
    assert "Offered:" not in text


@pytest.mark.parametrize(
    ("kind", "words"),
    [("size", "of the size (constant)"), ("unit", "absolute (all zero)"), ("places", "of the integers")],
)
def test_errors_are_told_in_the_measure_that_they_were_judged_by(kind: str, words: str):
    column = {"column": 3, "error": 2e-6, "allowed": 1e-5, "yardstick": "spread"}
    rows = [{**NUMERICS, "yardstick": kind, "worst_column": column}]
    one = evaluation("c", "passed", verification={"passed": True, "outputs": rows})
    text = Page(render(result(candidates=[one]), {})).text
    assert f"{words}; worst column 3: 2.00e-06 of the spread, 1.00e-05 allowed" in text


def test_each_limit_of_the_workload_is_told_with_who_keeps_it():
    limits = [
        {"name": "latency_ms", "limit": 6.0, "winner": 7.25, "winner_kept": False, "baseline": 5.5, "baseline_kept": 1},
        {"name": "peak_memory_bytes", "limit": 3 << 20},
    ]
    text = Page(render(result(limits=limits), {})).text
    assert "latency (p99 of a call) 6.00 ms 7.25 ms not kept 5.50 ms kept" in " ".join(text.split())
    assert "peak memory 3.0 MiB not measured not measured" in " ".join(text.split())
    assert "The workload's limits" not in Page(render(result(), {})).text


def test_errors_on_captured_samples_are_marked_as_such():
    one = evaluation("c", "passed", verification={"passed": True, "outputs": [{**NUMERICS, "inputs": "captured"}]})
    assert f"{NUMERICS['output']} (captured samples)" in Page(render(result(candidates=[one]), {})).text


LAYER = {
    "node": "linear_1", "source": "din.py:41", "inputs": 512, "outputs": 64, "rows": 256, "precision": "int8",
    "tried": "int8", "error": 2e-3, "share_of_allowed": 0.2, "float32_ms": 1.5, "tried_ms": 0.25, "reason": "it gains",
}  # fmt: skip


def test_each_layer_is_told_with_its_precision_and_why():
    kept = {**LAYER, "node": "linear_2", "source": None, "precision": "float32", "error": None, "reason": "it loses"}
    plan = {"candidates": ["aot_inductor + int8"], "layers": [LAYER, kept], "share_of_allowed": 0.25, "samples": 768}
    text = Page(render(result(layer_plans=[plan]), {})).text
    assert "int8 in 1 of 2 linear layers of aot_inductor + int8: together they take 25% of the error" in text
    assert "din.py:41 512 to 64 int8 1.50 ms 0.250 ms 2.0e-03 it gains" in text
    assert "linear_2 512 to 64 float32 1.50 ms 0.250 ms it loses" in text
    scores = {**kept, "operation": "matmul", "inputs": 64, "outputs": None}
    mixed = Page(render(result(layer_plans=[{**plan, "layers": [LAYER, scores]}]), {})).text
    assert "int8 in 1 of 2 layers of" in mixed and "linear_2 matmul 64 to any float32" in mixed
    few = Page(render(result(layer_plans=[{**plan, "layers": [{**LAYER, "weight_only": True}]}]), {})).text
    assert "din.py:41 512 to 64 int8, weights alone 1.50 ms" in few
    none = {**plan, "candidates": [], "layers": [kept]}
    assert "None of 1 linear layers goes to int8." in Page(render(result(layer_plans=[none]), {})).text


def test_a_note_that_is_told_twice_is_shown_once_and_no_note_makes_no_block():
    twice = result(notes=["stopped after 7 of 18 sets"])
    section = render(twice, {}).partition("<h2>Notes</h2>")[2].partition("</section>")[0]
    assert section.count("stopped after") == 1
    assert "<h2>Notes</h2>" not in render(result(notes=[], conditions=None), {})


def test_each_verdict_is_said_in_words():
    says = {
        "faster": "1.62× faster than the original",
        "slower": "Slower than the original: 1.62× its speed",
        "same": "No faster recipe found: no difference beyond the noise",
        "cannot_tell": "Cannot tell: the interval is too wide for a verdict",
    }
    for verdict, words in says.items():
        assert words in Page(render(result(verdict=verdict), {})).text


def test_a_failed_run_shows_its_problem_and_no_speed():
    problem = {"id": "capture:user:x", "side": "user", "message": "No export", "place": "m.py:4", "remedy": "Mend it."}
    text = Page(render(Result(purpose="optimize", status="failed", problem=problem), {})).text
    assert "The run failed No export at m.py:4 remedy Mend it. id capture:user:x" in text
    assert "×" not in text
    assert "Nothing was judged" in text


def test_an_almost_empty_result_still_makes_a_page(tmp_path: Path):
    path = write_report(Result(purpose="inspect", status="succeeded", summary="4 operations"), tmp_path)
    assert path == tmp_path / "report.html"
    text = Page(path.read_text()).text
    assert "4 operations" in text
    assert "Candidates" not in text


def test_a_long_operation_table_is_cut_and_says_so():
    profile = result().profile
    assert profile is not None
    many = profile.model_copy(update={"operations": [profile.operations[1]] * (MAX_OPERATIONS + 5)})
    html = render(result().model_copy(update={"profile": many}), {})
    assert "5 smaller rows are in result.json." in Page(html).text


def test_the_winners_operations_are_told_with_what_is_in_them_and_what_they_are_not():
    nodes = [{"node": "linear", "op": "linear"}, {"node": "relu_1", "op": "relu"}]
    row = {"op": "_linear_pointwise", "calls": 1, "self_ms": 2.0, "share": 1.0, "nodes": nodes}
    after = {"operations": [row], "total_ms": 2.0, "candidate": "winner", "how_obtained": "By torch.", "overhead": 1.5}
    text = Page(render(result(profile_after=after), {})).text
    assert (
        "Where winner spends its time 2.00 ms in operations; the profiler made the call 1.50× as long. By torch."
        in text
    )
    assert "these times are not the judged ones" in text
    assert "_linear_pointwise 1 2.00 ms 100.0 % linear, relu_1" in text
    assert "Where winner" not in Page(render(result(), {})).text


def test_every_engine_in_the_judgement_stands_with_its_figures_and_the_winners_over_it() -> None:
    first = {
        "name": "openvino", "precision": "float32", "best_ms": 6.56, "error": 2e-7, "allowed": 1e-5,
        "speedup": 1.25, "interval": {"low": 1.2, "high": 1.3},
    }  # fmt: skip
    over = {"winner_speedup": 1.47, "winner_interval": {"low": 1.4, "high": 1.54}, "winner_verdict": "faster"}
    second = {**first, "name": "onnxruntime", "speedup": 1.1, "error": None, **over}
    text = Page(render(result(judged_peers=[first, second]), {})).text
    section = text.partition("Every engine in the judgement")[2]
    assert "openvino float32 6.56 ms 1.25× 99 % interval 1.20 to 1.30 it is the winner 2.0e-07" in section
    assert "1.10× 99 % interval 1.20 to 1.30 1.47× 99 % interval 1.40 to 1.54" in section
    assert "Every engine in the judgement" not in Page(render(result(judged_peers=[second]), {})).text


def test_the_front_is_drawn_and_what_is_dominated_is_said_to_be():
    point = {"judged": True, "peak_memory_bytes": 200 << 20, "error": 4e-7}
    front = [
        {"candidate": "rewritten", "latency_ms": 5.0, "speedup": 1.6, **point},
        {"candidate": "openvino", "latency_ms": 7.0, "speedup": 1.1, **point, "dominated_by": "rewritten"},
    ]
    front[1]["judged"] = False
    html = render(result(front=front), {})
    text = Page(html).text
    assert "openvino 7.00 ms 1.10× (screening) 200.0 MiB 4.0e-07 dominated by rewritten" in text
    assert "rewritten 5.00 ms 1.60× 200.0 MiB 4.0e-07 on the front" in text
    assert html.count('class="ring plain"') == 1
    assert "Time, memory and error" not in Page(render(result(front=front[:1]), {})).text
