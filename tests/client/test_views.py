"""The live view and the words."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fuseworks_client import words
from fuseworks_client.progress import LiveView, PlainView, view


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


def test_a_terminal_gets_the_live_view_and_a_log_plain_lines():
    assert isinstance(view(terminal()), LiveView)
    assert isinstance(view(Console(file=io.StringIO())), PlainView)


def test_the_live_view_shows_stage_candidate_budget_and_the_best_so_far():
    console = terminal()
    shown = LiveView(console)
    with shown:
        shown.event({"kind": "capturing", "at_s": 0.5, "budget_s": 300, "message": "Capturing"})
        shown.event(
            {
                "kind": "benchmarking",
                "at_s": 61.0,
                "budget_s": 300,
                "message": "screening \x1b[31mred",
                "candidate": "openvino",
                "done": 2,
                "total": 6,
                "data": {"best": {"name": "aot_inductor", "speedup": 1.5}},
            }
        )
        shown.tick()
        console.print(shown._render())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "benchmarking" in text
    assert "1:01 of 5:00" in text
    assert "openvino: screening red (2/6)" in text
    assert "best so far (first screening, no verdict yet): aot_inductor 1.50x" in text


def test_the_live_view_keeps_the_first_comparison_with_its_interval():
    console = terminal()
    shown = LiveView(console)
    interval = {"low": 1.41, "high": 1.63, "confidence": 0.99}
    first = {"other": "aot_inductor + rewrites", "speedup": 1.52, "interval": interval}
    shown.event({"kind": "benchmarking", "at_s": 52, "message": "m", "data": {"first_comparison": first}})
    shown.event({"kind": "compiling", "at_s": 60, "message": "something else"})
    console.print(shown._render(), soft_wrap=True)
    text = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "no verdict yet): aot_inductor + rewrites 1.52x (99 % interval 1.41 to 1.63)" in text


def test_a_log_event_does_not_hide_the_stage():
    console = terminal()
    shown = LiveView(console)
    shown.event({"kind": "compiling", "at_s": 1, "budget_s": 9, "message": "m", "candidate": "c"})
    shown.event({"kind": "log", "at_s": 1, "budget_s": 9, "message": "note"})
    console.print(shown._render())
    assert "compiling" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"pass": "fuse", "options": {"a": 1}}, "pass fuse (a=1)"),
        ({"backend": "eager"}, "backend eager"),
        ({"precision": "bfloat16", "keep_float32": {"last_linears": 1}}, "precision bfloat16 (last_linears=1)"),
        ({"runtime": {"allocator": "glibc-no-trim"}}, "runtime allocator=glibc-no-trim"),
        ({"runtime": {}}, "runtime defaults"),
    ],
)
def test_steps_in_words(document: dict[str, object], text: str):
    assert words.step(document) == text


@pytest.mark.parametrize(("value", "text"), [(0.1234, "0.123 ms"), (5.061, "5.06 ms"), (234.6, "235 ms"), (None, "")])
def test_milliseconds_carry_as_many_digits_as_mean_something(value: float | None, text: str):
    assert words.milliseconds(value) == text


def test_escape_sequences_of_foreign_text_are_taken_out():
    assert words.plain("a\x1b[2Jb\x9bc\x07\nd") == "abc\nd"
