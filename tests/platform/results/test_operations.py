"""The operation table before and after: what belongs together, what stands alone; page, API and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from django.test import Client

from fuseworks.results.reading.operations import Found, NoAfter, rows, why_no_after
from fuseworks.runs.models import Run
from optimizer.result import Result
from tests.platform.factories import api_for, client_for, make_member
from tests.platform.results.support import document, finished_run


def operation(op: str, share: float, **fields: Any) -> dict[str, Any]:
    """Of a profile whose operations take 10 ms together."""
    return {"op": op, "calls": 1, "self_ms": 10 * share, "share": share, **fields}


def node(op: str | None, source: str | None = None, name: str | None = None) -> dict[str, Any]:
    return {"node": name or f"{op}_1", "op": op, "source": source}


BEFORE = [
    operation("linear", 0.5, source="din.py:28", module="mlp", calls=2, shapes=[[128, 64], [32, 64]], flops=2_000_000),
    operation("relu", 0.2, source="din.py:28", module="mlp"),
    operation("embedding", 0.2, source="din.py:9"),
    operation("view", 0.06, source="din.py:30"),
    operation("(3 smaller rows)", 0.04),
]
AFTER = [
    operation("embedding_kernel", 0.3, nodes=[node("embedding", "din.py:9")]),
    operation(
        "_linear_pointwise",
        0.6,
        nodes=[
            {**node("linear", "din.py:28"), "module": "mlp"},
            {**node("relu", "din.py:28"), "module": "mlp"},
            {**node("relu", "din.py:28", "relu_9"), "module": "mlp"},
        ],
    ),
    operation("Reorder", 0.06, nodes=[node(None, name="Constant_7")]),
    operation("(2 smaller rows)", 0.04),
]
HOW = "torch.profiler over the same graph, compiled once more."


def profile(operations: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"operations": operations, "total_ms": 10.0, **fields}


def profiled(**fields: Any) -> dict[str, Any]:
    """The document of a run whose winner was profiled."""
    after = profile(AFTER, candidate="aot_inductor", how_obtained=HOW, profiled_ms=12.0, unprofiled_ms=8.0)
    return {**document("din"), "profile": profile(BEFORE), "profile_after": after, **fields}


def positions(found: dict[str, Any]) -> list[tuple[str, list[int], list[int]]]:
    table = rows(Result.model_validate(found))
    return [(row.found.value, row.before.positions, row.after.positions) for row in table]


# ---- what belongs together -----------------------------------------------------------------------------------------


def test_operations_stand_beside_the_kernel_that_holds_them_and_the_rest_stands_alone():
    assert positions(profiled()) == [
        ("both", [0, 1], [1]),  # linear and relu, 70 % before; one kernel of 60 % after
        ("both", [2], [0]),
        ("before", [3], []),
        ("after", [], [2]),
        ("before", [4], []),  # the tails of two profiles are not the same work
        ("after", [], [3]),
    ]


def test_the_sides_of_a_row_add_up():
    first = rows(Result.model_validate(profiled()))[0]
    assert (first.before.self_ms, first.before.share) == (pytest.approx(7.0), pytest.approx(0.7))
    assert (first.after.self_ms, first.after.share) == (pytest.approx(6.0), pytest.approx(0.6))
    assert rows(Result.model_validate(profiled()))[2].after.share is None


def test_the_same_operation_at_another_line_or_module_is_another_one():
    found = profiled(
        profile=profile([operation("linear", 1.0, source="m.py:1", module="a")]),
        profile_after=profile(
            [operation("linear", 0.5, source="m.py:2", module="a"), operation("linear", 0.5, source="m.py:1")]
        ),
    )
    assert {row[0] for row in positions(found)} == {"before", "after"}


def test_equal_rows_of_one_engine_before_and_after_are_matched_without_nodes():
    row = operation("Gemm", 1.0, module="/head/Gemm")
    assert positions(profiled(profile=profile([row]), profile_after=profile([row]))) == [("both", [0], [0])]


def test_kernels_that_share_an_operation_are_one_row_with_all_of_theirs():
    # the sum is computed in both kernels: what they hold cannot be told apart
    before = [
        operation("sum", 0.5, source="m.py:1"),
        operation("exp", 0.25, source="m.py:2"),
        operation("log", 0.25, source="m.py:3"),
    ]
    after = [
        operation("k1", 0.5, nodes=[node("sum", "m.py:1"), node("exp", "m.py:2")]),
        operation("k2", 0.5, nodes=[node("sum", "m.py:1"), node("log", "m.py:3")]),
    ]
    found = profiled(profile=profile(before), profile_after=profile(after))
    assert positions(found) == [("both", [0, 1, 2], [0, 1])]


def test_every_operation_of_both_profiles_is_in_exactly_one_row():
    table = rows(Result.model_validate(profiled()))
    assert sorted(at for row in table for at in row.before.positions) == list(range(len(BEFORE)))
    assert sorted(at for row in table for at in row.after.positions) == list(range(len(AFTER)))


# ---- why there is none ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"profile_after": None}, NoAfter.OLDER),
        ({"profile_after": None, "not_profiled_because": "3 s were left"}, NoAfter.NOT_PROFILED),
        ({"profile_after": None, "winner": None}, NoAfter.NOTHING_JUDGED),
        ({"profile_after": None, "purpose": "replay", "winner": None}, NoAfter.NOTHING_JUDGED),
        ({"profile_after": None, "purpose": "compare"}, NoAfter.COMPARISON),
        ({"profile_after": None, "purpose": "inspect"}, NoAfter.INSPECTION),
        ({}, None),
    ],
)
def test_a_document_without_a_profile_of_the_winner_says_why(fields: dict[str, Any], why: NoAfter | None):
    assert why_no_after(Result.model_validate(profiled(**fields))) == why


# ---- the page ------------------------------------------------------------------------------------------------------


def section(client: Client, run: Run) -> str:
    """The words of the table's card."""
    answer = client.get(f"/runs/{run.pk}/comparison/")
    assert answer.status_code == 200, answer.content[:2000]
    found = re.search(
        r'<section class="card" aria-labelledby="operations">(.*?)</section>', answer.content.decode(), re.DOTALL
    )
    assert found is not None
    return " ".join(re.sub(r"<[^>]+>", " ", found.group(1)).split())


@pytest.fixture
def run() -> Run:
    return finished_run(profiled())


def page(run: Run) -> str:
    return section(client_for(make_member(run.team)), run)


@pytest.mark.django_db
def test_both_sides_stand_beside_each_other_with_units_and_with_what_they_are_not(run: Run):
    words = page(run)
    assert "After, aot_inductor: 10.0 ms a call in operations." in words
    assert "A call took 12.0 ms under the profiler and 8.00 ms without it. " + HOW in words
    assert "Measured, but not judged: each profile is of a process of its own under a profiler" in words
    assert "Before Time a call Share After Time a call Share" in words
    assert (
        "linear ×2 mlp din.py:28 5.00 ms · 128×64, 32×64 · 2.00 M FLOPs relu mlp din.py:28 2.00 ms 7.00 ms 70.0 %"
        in words
    )
    assert "_linear_pointwise · holds linear, relu ×2 6.00 ms 60.0 %" in words
    assert "view din.py:30 0.600 ms 6.0 % only before" in words
    assert "only after Reorder 0.600 ms 6.0 %" in words


@pytest.mark.django_db
def test_a_winner_that_was_not_profiled_says_why_and_the_original_stays():
    words = page(finished_run(profiled(profile_after=None, not_profiled_because="9 s were left, and it takes 30 s")))
    assert "There is no profile of what came after. 9 s were left, and it takes 30 s" in words
    assert "Before Time a call Share linear" in words and "After" not in words


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "This run is older than the profile of the winner."),
        ({"winner": None, "verdict": None}, "Nothing was judged in this run, so there is no winner to profile."),
        ({"purpose": "inspect"}, "An inspection runs nothing, so it profiles nothing."),
    ],
)
def test_an_empty_table_says_why(fields: dict[str, Any], words: str):
    found = page(finished_run(profiled(profile=None, profile_after=None, **fields)))
    assert words in found and "Time a call" not in found


@pytest.mark.django_db
def test_a_profile_of_the_winner_alone_is_shown(run: Run):
    words = page(finished_run(profiled(profile=None), run.version))
    assert "There is no profile of the original." in words
    assert "After Time a call Share _linear_pointwise" in words and "only" not in words.partition("After Time")[2]


@pytest.mark.django_db
def test_names_out_of_a_hostile_model_are_text(run: Run):
    hostile = operation("<script>alert(1)</script>", 1.0, module="<b>", nodes=[node("<i>"), node("</td>")])
    other = finished_run(profiled(profile_after=profile([hostile], candidate="<u>")), run.version)
    body = client_for(make_member(run.team)).get(f"/runs/{other.pk}/comparison/").content.decode()
    for markup in ("<script>alert(1)", "<i>,", "After, <u>"):
        assert markup not in body
    assert "&lt;script&gt;alert(1)" in body


@pytest.mark.django_db
def test_a_long_table_is_cut_and_says_where_the_rest_is(run: Run):
    many = [operation(f"op{i}", 0.01, source=f"m.py:{i}") for i in range(65)]
    words = page(finished_run(profiled(profile=profile(many), profile_after=None), run.version))
    assert "5 smaller rows are in the downloads." in words


# ---- for programs --------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_api_gives_the_rows_by_their_positions_in_the_document(run: Run):
    found = api_for(make_member(run.team)).get(f"/api/v1/runs/{run.pk}/result/").json()
    assert found["operations"]["no_after"] is None
    assert found["operations"]["rows"][0] == {"found_in": "both", "before": [0, 1], "after": [1]}
    held = found["document"]["profile_after"]["operations"][found["operations"]["rows"][0]["after"][0]]
    assert held["op"] == "_linear_pointwise"


@pytest.mark.django_db
def test_the_api_says_why_there_is_none():
    run = finished_run(document("dlrm"))
    found = api_for(make_member(run.team)).get(f"/api/v1/runs/{run.pk}/result/").json()["operations"]
    assert found["no_after"] == "older"
    assert all(row["found_in"] == "before" for row in found["rows"]), "an old document has what it had"


@pytest.mark.django_db
@pytest.mark.parametrize("where", ["/api/v1/runs/{}/result/", "/runs/{}/comparison/"])
def test_the_table_is_exported_with_one_line_an_operation(run: Run, where: str):
    reader = make_member(run.team)
    client = api_for(reader) if where.startswith("/api") else client_for(reader)
    answer = client.get(where.format(run.pk), {"format": "csv", "table": "operations"})
    assert answer.headers["Content-Type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert len(lines) == len(BEFORE) + len(AFTER)
    linear, relu, kernel = lines[:3]
    assert (linear["row"], relu["row"], kernel["row"]) == ("1", "1", "1")
    assert (linear["side"], kernel["side"], kernel["found_in"]) == ("before", "after", "both")
    assert (float(linear["self_ms"]), linear["calls_per_call"], json.loads(linear["shapes"])) == (
        5.0,
        "2",
        [[128, 64], [32, 64]],
    )
    assert (kernel["nodes"], kernel["candidate"]) == ("linear_1 relu_1 relu_9", "aot_inductor")
    assert (kernel["profiled_call_ms"], kernel["unprofiled_call_ms"], kernel["how_obtained"]) == ("12.0", "8.0", HOW)
    assert Found(lines[-1]["found_in"]) == Found.AFTER


@pytest.mark.django_db
def test_an_operation_that_a_spreadsheet_would_run_is_made_harmless(run: Run):
    other = finished_run(profiled(profile=profile([operation("=HYPERLINK(1)", 1.0)])), run.version)
    answer = client_for(make_member(run.team)).get(
        f"/runs/{other.pk}/comparison/", {"format": "csv", "table": "operations"}
    )
    assert "'=HYPERLINK(1)" in answer.content.decode()
    assert answer.headers["Content-Disposition"].endswith(f'-{str(other.pk)[:8]}-operations.csv"')
