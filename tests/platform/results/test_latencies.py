"""The distribution of single calls: every call counts, at most 500 points are drawn, and the page says so."""

from __future__ import annotations

import io
import json

import pytest

from fuseworks.results.reading.latencies import MAX_BYTES, MAX_POINTS, Unreadable, curve, curves, kept_ranks, thinned
from tests.platform.results.support import DOCUMENTS


def read(document: object):
    raw = json.dumps(document).encode()
    return curves(json.loads(json.dumps(thinned(io.BytesIO(raw), len(raw)))))


def process(*bursts: list[int]) -> dict[str, object]:
    return {"calls_ns": list(bursts)}


def test_a_share_counts_the_calls_that_took_at_most_so_long():
    (one,) = read({"eager": [process([3_000_000, 1_000_000], [2_000_000]), process([4_000_000])]})
    assert one.points == [[1.0, 0.25], [2.0, 0.5], [3.0, 0.75], [4.0, 1.0]]
    assert (one.calls, one.processes, one.thinned) == (4, 2, False)


def test_five_hundred_points_stand_for_many_calls_with_both_ends_and_shares_of_all_calls():
    one = curve("eager", [[float(ns) for ns in range(1_000_000, 11_000_000, 1000)]])  # 10,000 calls of 1 to 11 ms
    assert len(one.points) == MAX_POINTS
    assert one.thinned and one.calls == 10_000
    assert one.points[0] == (1.0, 1 / 10_000)
    assert one.points[-1] == (10.999, 1.0)
    for milliseconds, share in one.points:  # the calls are evenly spread, so the share follows from the time
        assert share == pytest.approx((milliseconds - 1.0) / 10 + 1 / 10_000)


@pytest.mark.parametrize(("count", "kept"), [(0, []), (1, [0]), (3, [0, 1, 2]), (5, [0, 2, 4])])
def test_ranks_are_evenly_spaced(count: int, kept: list[int]):
    assert kept_ranks(count, 3) == kept


def test_exactly_as_many_calls_as_points_are_all_drawn():
    assert not curve("eager", [[float(i + 1) for i in range(MAX_POINTS)]]).thinned
    assert curve("eager", [[float(i + 1) for i in range(MAX_POINTS + 1)]]).thinned


def test_the_samples_of_a_real_run_are_read():
    path = DOCUMENTS / "din_samples.json"
    with path.open("rb") as file:
        found = curves(thinned(file, path.stat().st_size), {"baseline_again": "once more"})
    assert [one.name for one in found] == [
        "aot_inductor + rewrites - merge_embedding_tables",
        "baseline",
        "aot_inductor",
        "baseline (default settings)",
        "once more",
    ]
    raw = json.loads(path.read_text())["baseline"]
    assert found[1].calls == sum(len(burst) for one in raw for burst in one["calls_ns"])
    assert found[1].points[-1][1] == 1.0


def test_a_contender_without_calls_is_left_out():
    assert read({"eager": [process([])], "inductor": []}) == []


@pytest.mark.parametrize(
    "document",
    [
        [],
        7,
        {"eager": 3},
        {"eager": [{"calls": [[1]]}]},
        {"eager": [{"calls_ns": [["fast"]]}]},
        {"eager": [{"calls_ns": [[float("nan")]]}]},
        {"eager": [{"calls_ns": [[10**400]]}]},
    ],
)
def test_what_is_in_another_form_is_refused_in_words(document: object):
    with pytest.raises(Unreadable, match="expected form"):
        read(document)


def test_no_json_is_refused_in_words():
    with pytest.raises(Unreadable, match="expected form"):
        curves(thinned(io.BytesIO(b"{"), 1))


def test_too_many_samples_are_not_read_at_all():
    with pytest.raises(Unreadable, match="too many"):
        curves(thinned(io.BytesIO(b"never read"), MAX_BYTES + 1))
