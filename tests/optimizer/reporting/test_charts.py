"""The charts' geometry, checked against the numbers that they draw."""

from __future__ import annotations

import math
import re

import pytest

from optimizer.reporting.charts import MAX_POINTS, WIDTH, Bar, distribution, forest, ticks
from optimizer.reporting.scatter import Dot, scatter


def numbers(svg: str, tag: str, attribute: str) -> list[float]:
    return [float(v) for v in re.findall(rf'<{tag} [^>]*?\b{attribute}="([-\d.]+)"', svg)]


def test_intervals_are_drawn_to_a_logarithmic_scale_around_the_line_of_one():
    svg = str(forest([Bar("twice", 1.9, 2.0, 2.1, "good"), Bar("half", 0.45, 0.5, 0.55, "bad")], "t"))
    (one,) = re.findall(r'<line class="one" x1="([\d.]+)"', svg)
    double, half = numbers(svg, "circle", "cx")
    assert double - float(one) == pytest.approx(float(one) - half, abs=0.2)
    bars = re.findall(r'<line class="bar (\w+)" x1="([\d.]+)" x2="([\d.]+)"', svg)
    assert [tone for tone, *_ in bars] == ["good", "bad"]
    for (_, left, right), centre in zip(bars, (double, half), strict=True):
        assert float(left) < centre < float(right)


def test_nothing_to_draw_draws_nothing():
    assert forest([], "t") == ""
    assert distribution({}, "t") == ""
    assert distribution({"one": [1.0]}, "t") == ""


def test_the_distribution_rises_from_the_first_to_the_last_call():
    svg = str(distribution({"a": [1.0, 2.0, 3.0, 4.0]}, "t"))
    (points,) = re.findall(r'<polyline class="line s0" points="([^"]+)"', svg)
    pairs = [tuple(map(float, point.split(","))) for point in points.split()]
    heights = [(276 - y) / 260 for _, y in pairs]
    assert heights == [pytest.approx(share, abs=0.001) for share in (0.25, 0.5, 0.75, 1.0)]
    assert [x for x, _ in pairs] == sorted(x for x, _ in pairs)
    assert all(0 <= x <= WIDTH for x, _ in pairs)


def test_many_samples_are_thinned_but_keep_both_ends():
    svg = str(distribution({"a": [1 + i / 1000 for i in range(5000)]}, "t"))
    (points,) = re.findall(r'points="([^"]+)"', svg)
    assert MAX_POINTS - 2 <= len(points.split()) <= MAX_POINTS


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.1), (0.5, 2.2), (1.0, 40.0), (0.01, 900.0), (5.0, 5.2)])
def test_ticks_are_few_and_within_the_axis(low: float, high: float):
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    assert all(low * 0.99 <= tick <= high * 1.01 and math.isfinite(tick) for tick in found)


def test_less_time_is_left_less_memory_is_low_and_only_what_is_on_the_front_is_named():
    fast = Dot("fast", 2.0, 400.0, "good", filled=True)
    small = Dot("small", 8.0, 100.0, "plain", filled=True)
    neither = Dot("neither <b>", 8.0, 400.0, "plain", filled=False)
    svg = str(scatter([fast, small, neither], "t"))
    assert re.findall(r'<circle class="([a-z ]+)"', svg) == ["dot good", "dot plain", "ring plain"]
    xs, ys = numbers(svg, "circle", "cx"), numbers(svg, "circle", "cy")
    assert xs[0] < xs[1] == xs[2]
    assert ys[1] > ys[0] == ys[2]
    assert re.findall(r'<text class="label"[^>]*>([^<]*)<', svg) == ["fast", "small"]
    assert all(0 <= x <= WIDTH for x in xs)


def test_a_logarithmic_axis_puts_the_geometric_mean_in_the_middle():
    svg = str(scatter([Dot(str(x), x, 10.0, "plain", filled=False) for x in (1.0, 10.0, 100.0)], "t"))
    left, middle, right = numbers(svg, "circle", "cx")
    assert middle - left == pytest.approx(right - middle, abs=0.2)


@pytest.mark.parametrize("dots", [[], [Dot("one", 1.0, 1.0, "good", filled=True)]])
def test_a_front_of_one_is_not_drawn(dots: list[Dot]):
    assert scatter(dots, "t") == ""


def test_no_memory_at_all_has_a_place_too():
    svg = str(scatter([Dot("none", 1.0, 0.0, "plain", filled=True), Dot("some", 2.0, 50.0, "plain", filled=True)], "t"))
    assert all(math.isfinite(y) for y in numbers(svg, "circle", "cy"))
