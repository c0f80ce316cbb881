"""Memory, roofline and icicle: places checked against the numbers that they draw."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from optimizer.reporting.charts import WIDTH
from optimizer.reporting.icicle import ROW, icicle, tree
from optimizer.reporting.memory_chart import BOTTOM, LEFT, TOP, memory, round_steps
from optimizer.reporting.report import render
from optimizer.reporting.roofline import roofline
from optimizer.result import MemoryTimeline, Operation, Profile
from tests.optimizer.reporting.sample import document, result
from tests.optimizer.reporting.test_report import Page

MIB = 1 << 20
MEMORY: dict[str, Any] = {
    "points": [(0.0, 0), (2.0, 4 * MIB), (5.0, 8 * MIB), (6.0, 1 * MIB)],
    "peak_bytes": 8 * MIB,
    "peak_at_ms": 5.0,
    "resident_bytes": 33 * MIB,
    "profiled_ms": 10.0,
    "overhead": 1.3,
    "owners": [
        {"op": "linear<b>", "module": "a", "source": "din.py:41", "bytes": 6 * MIB, "share": 0.75, "tensors": 2}
    ],
    "how_obtained": "PyTorch's allocator was recorded.",
}
TRAINING = [
    {"name": "optimizer", "from_ms": 0, "to_ms": 0.5},
    {"name": "forward", "from_ms": 0.5, "to_ms": 4},
    {"name": "backward", "from_ms": 4, "to_ms": 8},
    {"name": "optimizer", "from_ms": 8, "to_ms": 10},
]


def timeline(**changes: Any) -> MemoryTimeline:
    return MemoryTimeline.model_validate({**MEMORY, **changes})


def operation(op: str, ms: float, **more: Any) -> Operation:
    return Operation(op=op, calls=1, self_ms=ms, share=ms / 10, **more)


def profile(*operations: Operation, **more: Any) -> Profile:
    roofs = {"bandwidth_bytes_per_s": 1e10, "gemm_flops_per_s": {"float32": 1e11}}
    return Profile(operations=list(operations), total_ms=10.0, **{"roofs": roofs, **more})


def pairs(points: str) -> list[tuple[float, float]]:
    found = [point.split(",") for point in points.split()]
    return [(float(x), float(y)) for x, y in found]


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_is_a_step_from_each_moment_to_the_next() -> None:
    svg = str(memory(timeline(), "t"))
    (points,) = re.findall(r'<polyline class="line s1" points="([^"]+)"', svg)
    found = pairs(points)
    assert found[0] == (LEFT, BOTTOM) and found[-1][0] == pytest.approx(WIDTH - 24, abs=0.1)
    # it goes right before it goes up
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(found))
    heights = [BOTTOM - y for _, y in found]
    assert max(heights) == pytest.approx((BOTTOM - TOP) / 1.08, abs=0.2)
    assert heights[3] == pytest.approx(max(heights) / 2, abs=0.2)


def test_the_peak_is_marked_where_it_was() -> None:
    svg = str(memory(timeline(), "t"))
    ((x, y),) = re.findall(r'<circle class="dot bad" cx="([\d.]+)" cy="([\d.]+)"', svg)
    assert float(x) == pytest.approx(LEFT + (WIDTH - 24 - LEFT) / 2, abs=0.1)
    assert float(y) == pytest.approx(BOTTOM - (BOTTOM - TOP) / 1.08, abs=0.1)
    assert "peak 8.0 MiB" in svg


def test_parts_of_a_training_step_are_bands_side_by_side() -> None:
    svg = str(memory(timeline(phases=TRAINING), "t"))
    bands = re.findall(r'<rect class="band (\w+)" x="([\d.]+)" y="\d+" width="([\d.]+)"', svg)
    assert [name for name, *_ in bands] == ["optimizer", "forward", "backward", "optimizer"]
    for (_, x, width), (_, following, _) in pairwise(bands):
        assert float(x) + float(width) == pytest.approx(float(following), abs=0.2)


@pytest.mark.parametrize("changes", [{"points": [(0.0, 0)]}, {"points": []}, {"profiled_ms": 0.0}])
def test_no_memory_draws_nothing(changes: dict[str, Any]) -> None:
    assert memory(timeline(**changes), "t") == "" == memory(None, "t")


def test_a_call_that_holds_nothing_is_drawn_flat() -> None:
    assert "nan" not in str(memory(timeline(points=[(0.0, 0), (1.0, 0)], peak_bytes=0), "t"))


@pytest.mark.parametrize(
    ("high", "base", "steps"),
    [
        (10.0, 10.0, [0, 2, 4, 6, 8, 10]),
        (0.6, 10.0, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
        (9 * MIB, 2.0, [0, 2 * MIB, 4 * MIB, 6 * MIB, 8 * MIB]),
        (0.0, 10.0, [0]),
    ],
)
def test_an_axis_has_few_and_round_steps(high: float, base: float, steps: list[float]) -> None:
    assert round_steps(high, base) == pytest.approx(steps)


# ---- the roofline ----------------------------------------------------------------------------------------------------


def test_an_operation_at_half_the_bandwidth_lies_half_as_high_as_the_slope_allows() -> None:
    # 1e7 FLOPs on 1e7 bytes in 2 ms: 5 GFLOP/s where the memory allows 10
    one = operation("add", 2.0, flops=10**7, bytes=10**7)
    on_slope = operation("mul", 1.0, flops=10**7, bytes=10**7)
    svg = str(roofline(profile(one, on_slope), "t"))
    dots = re.findall(r'<circle class="work (\w+)" cx="([\d.]+)" cy="([\d.]+)"', svg)
    assert [bound for bound, *_ in dots] == ["memory", "memory"]
    (roof,) = re.findall(r'<polyline class="roof" points="([^"]+)"', svg)
    first, corner, last = pairs(roof)
    assert corner[1] == last[1], "the arithmetic's roof is flat"
    slope = (corner[1] - first[1]) / (corner[0] - first[0])
    at = first[1] + (float(dots[1][1]) - first[0]) * slope
    assert float(dots[1][2]) == pytest.approx(at, abs=0.3), "10 GFLOP/s at one FLOP a byte is the slope itself"
    assert float(dots[0][2]) > float(dots[1][2]), "the slower one lies lower"


def test_right_of_the_corner_the_arithmetic_binds() -> None:
    # the corner is at 10 FLOPs a byte
    svg = str(roofline(profile(operation("mm", 1.0, flops=2 * 10**8, bytes=10**7)), "t"))
    assert 'class="work arithmetic"' in svg and "20 FLOPs for each byte" in svg


def test_only_what_takes_time_is_named_and_names_are_text() -> None:
    large = operation("mm", 9.0, flops=10**8, bytes=10**7, module="<i>head")
    svg = str(roofline(profile(large, operation("tiny", 0.1, flops=10**5, bytes=10**5)), "t"))
    assert re.findall(r'<text class="label"[^>]*>([^<]*)<', svg) == ["mm (&lt;i&gt;head)"]


@pytest.mark.parametrize(
    "given",
    [
        None,
        profile(),
        profile(operation("relu", 1.0, bytes=10)),
        profile(operation("mm", 1.0, flops=10, bytes=10), roofs={}),
        profile(operation("mm", 1.0, flops=10, bytes=10), roofs={"bandwidth_bytes_per_s": 1e10}),
    ],
)
def test_without_roofs_or_work_nothing_is_drawn(given: Profile | None) -> None:
    assert roofline(given, "t") == ""


# ---- the icicle ------------------------------------------------------------------------------------------------------

OPERATIONS = [
    operation("linear", 4.0, module="layers.0"),
    operation("relu", 1.0, module="layers.0"),
    operation("linear", 3.0, module="layers.1"),
    operation("cat", 2.0),
]


def test_a_module_takes_what_its_operations_take() -> None:
    whole = tree(OPERATIONS)
    layers = whole.inside[True, "layers"]
    assert (whole.ms, layers.ms) == (10.0, 8.0)
    assert {name: cell.ms for (_, name), cell in layers.inside.items()} == {"0": 5.0, "1": 3.0}
    assert layers.inside[True, "0"].inside[False, "linear"].ms == 4.0
    assert whole.inside[False, "cat"].ms == 2.0


def cells(svg: str) -> dict[str, tuple[float, float, float]]:
    found = re.findall(
        r"<title>([^:<]+): [^<]*</title><rect class=\"cell [^\"]*\" x=\"([\d.]+)\" y=\"(\d+)\" width=\"([\d.]+)\"", svg
    )
    return {name: (float(x), float(y), float(width)) for name, x, y, width in found}


def test_widths_are_times_and_what_is_inside_lies_below() -> None:
    found = cells(str(icicle(OPERATIONS, "t")))
    whole = found["call"]
    assert found["layers"][2] == pytest.approx(0.8 * whole[2], abs=0.2)
    assert found["layers.0.linear"][2] == pytest.approx(0.4 * whole[2], abs=0.2)
    assert found["layers"][1] == whole[1] + ROW and found["layers.0"][1] == whole[1] + 2 * ROW
    left, _, width = found["layers"]
    for name in ("layers.0", "layers.1"):
        assert left <= found[name][0] and found[name][0] + found[name][2] <= left + width + 0.2


def test_equal_operations_have_one_colour() -> None:
    svg = str(icicle(OPERATIONS, "t"))
    assert svg.count('class="cell op f0"') == 2, "linear takes most, and stands twice"


def test_a_training_step_begins_with_its_parts() -> None:
    rows = [operation("linear", 1.0, module="a", phase="forward"), operation("add_", 1.0, phase="optimizer")]
    assert set(cells(str(icicle(rows, "t")))) == {"call", "forward", "forward.a", "forward.a.linear"} | {
        "optimizer",
        "optimizer.add_",
    }


def test_what_cannot_be_seen_is_left_out_and_no_time_draws_nothing() -> None:
    svg = str(icicle([operation("linear", 10_000.0), operation("tiny", 0.001)], "t"))
    assert "tiny" not in svg
    assert icicle([], "t") == "" == icicle([operation("x", 0.0)], "t")


# ---- in the report ---------------------------------------------------------------------------------------------------


def test_the_report_shows_the_profile_and_needs_no_script() -> None:
    told = document()["profile"]
    phases = [{"name": "forward", "ms": 3.0, "share": 0.6}, {"name": "backward", "ms": 2.0, "share": 0.4}]
    page = Page(render(result(profile={**told, "memory": {**MEMORY, "phases": TRAINING}, "phases": phases}), {}))
    for words in ("By module", "Under this machine's roofs", "Memory over one call", "33.0 MiB are there all the time"):
        assert words in page.text
    assert "Recording made the call 1.30× as long." in page.text
    assert "linear<b> a din.py:41" in page.text, "what a model calls itself is text"
    assert "script" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") or name == "style" for _, attrs in page.tags for name in attrs)


def test_a_profile_without_memory_says_nothing_of_it() -> None:
    assert "Memory over one call" not in Page(render(result(), {})).text
