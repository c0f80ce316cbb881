"""Other settings are proposed by what the profile measured, and never where the policy has decided."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.optimizing.settings_plans import backend_of, under, variants
from optimizer.result import Candidate
from optimizer.spec import RuntimeSettings, dump_step

TUNED = RuntimeSettings(allocator="glibc-no-trim", huge_pages=True)


def proposed(**changes: Any) -> list[Any]:
    given = {"threads": 2, "threads_ms": {1: 12.0, 2: 10.0}, "backend": "aot_inductor", "threads_fixed": False}
    return variants(TUNED, **{**given, **changes})


def labels(**changes: Any) -> list[str]:
    return [one.label for one in proposed(**changes)]


def test_fewer_threads_then_how_they_wait_and_where_they_run() -> None:
    assert labels() == ["1 thread", "sleeping threads", "bound threads"]
    single, sleeping, bound = (one.settings for one in proposed())
    assert (single.threads, sleeping.thread_waiting, bound.thread_binding) == (1, "passive", "cores")
    assert all((one.allocator, one.huge_pages) == ("glibc-no-trim", True) for one in (single, sleeping, bound))


@pytest.mark.parametrize(
    ("threads_ms", "counts"),
    [({}, []), ({2: 10.0}, []), ({1: 15.1, 2: 10.0}, []), ({1: 15.0, 2: 10.0}, ["1 thread"])],
    ids=["not measured", "nothing else measured", "half as fast", "not much slower"],
)
def test_fewer_threads_are_tried_where_the_original_loses_little_by_them(threads_ms: Any, counts: list[str]) -> None:
    assert labels(threads_ms=threads_ms) == [*counts, "sleeping threads", "bound threads"]


def test_every_number_that_was_measured_is_weighed_on_a_larger_machine() -> None:
    assert labels(threads=8, threads_ms={1: 40.0, 4: 12.0, 8: 10.0})[0] == "4 threads"
    (four, *_) = proposed(threads=8, threads_ms={1: 40.0, 4: 12.0, 8: 10.0})
    assert four.why == "the original takes 12.00 ms on 4 threads, 10.00 ms on 8"


def test_a_policy_that_names_the_threads_is_obeyed() -> None:
    assert labels(threads_fixed=True) == ["sleeping threads", "bound threads"]


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
def test_engines_with_threads_of_their_own_get_no_openmp_settings(backend: str) -> None:
    assert labels(backend=backend) == ["1 thread"]


def test_one_thread_neither_waits_nor_leaves_its_core() -> None:
    assert labels(threads=1, threads_ms={1: 10.0}) == []


def test_a_plan_under_other_settings_keeps_every_other_step_and_tells_its_name() -> None:
    plan = Candidate.model_validate(
        {
            "name": "aot_inductor + rewrites",
            "peer": True,
            "steps": [{"runtime": TUNED}, {"pass": "a"}, {"backend": "aot_inductor"}],
        }
    )
    single = proposed()[0]
    other = under(plan, single)
    assert other.name == "aot_inductor + rewrites @ 1 thread"
    assert (other.steps[1:], other.peer) == (plan.steps[1:], True)
    settings = {"allocator": "glibc-no-trim", "huge_pages": True, "threads": 1}
    assert dump_step(other.steps[0]) == {"runtime": settings}
    assert backend_of(other) == "aot_inductor"
    bare = plan.model_copy(update={"steps": plan.steps[1:]})
    assert under(bare, single).steps == other.steps
