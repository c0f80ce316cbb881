"""Builds ahead of time: what the deadline cut may be tried again, and no more is begun than can be finished."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from optimizer.coordinator.builds import Builds
from optimizer.result import Candidate
from optimizer.spec import BackendStep
from tests.optimizer.coordinator.support import context


def candidates(*names):
    return [Candidate(name=name, steps=[BackendStep(backend="eager")]) for name in names]


@pytest.fixture
def builds(tmp_path):
    """Two workers; each build waits for `go`, an event of the shop."""
    shop = SimpleNamespace(go=threading.Event(), built=[])

    def build(candidate):
        assert shop.go.wait(30)
        shop.built.append(candidate.name)
        return SimpleNamespace(reused=False)

    shop.build = build
    pool = Builds(SimpleNamespace(context=context(tmp_path), shop=shop))
    yield pool
    shop.go.set()
    pool.close()


def test_what_was_cancelled_for_want_of_time_is_built_when_it_is_asked_for_again(builds):
    a, b, c = candidates("a", "b", "c")
    builds.submit([a, b, c])
    # the two that run are waited for, so they are let go once the third was cancelled
    third = builds._builds["c"]
    third.add_done_callback(lambda _: builds.bench.shop.go.set())
    builds.wait([a, b, c], deadline=time.monotonic())
    assert third.cancelled() and not builds.ended(c)
    builds.submit([a, c])
    builds.wait([a, c], deadline=time.monotonic() + 30)
    assert builds.ended(c)
    assert sorted(builds.bench.shop.built) == ["a", "b", "c"], "what was built once is not built again"


def test_how_long_a_build_took_is_known_afterwards(builds):
    builds.bench.shop.go.set()
    (one,) = candidates("one")
    assert builds.took_s(one) == 0.0
    builds.submit([one])
    builds.wait([one], deadline=time.monotonic() + 30)
    assert 0.0 < builds.took_s(one) < 30


@pytest.mark.parametrize(
    ("left_s", "each_s", "fitting"),
    [
        (100.0, 40.0, 4),  # two rounds of two workers
        (79.0, 40.0, 2),
        (39.0, 40.0, 0),
        (-1.0, 40.0, 0),
        (1.0, 0.0, 5),  # nothing is known, or nothing is to be compiled
        (-1.0, 0.0, 0),
        (1000.0, 40.0, 5),
    ],
)
def test_as_many_fit_as_the_workers_can_finish_in_time_the_first_ones_first(builds, left_s, each_s, fitting):
    asked = candidates("a", "b", "c", "d", "e")
    assert builds.fitting(asked, time.monotonic() + left_s, each_s=each_s) == asked[:fitting]
