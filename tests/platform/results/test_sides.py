"""Which upload is which: latency_ratio is the time of the version over that of the one before, whoever was the base."""

from __future__ import annotations

import pytest

from fuseworks.registry.models import ModelVersion
from fuseworks.results.sides import Sides, sides
from fuseworks.runs.models import Run
from optimizer.result import Result, Verdict
from tests.platform.factories import make_run
from tests.platform.results.support import compared, document, two_versions

pytestmark = pytest.mark.django_db


@pytest.fixture
def versions() -> tuple[ModelVersion, ModelVersion]:
    return two_versions()


def compare_run(versions: tuple[ModelVersion, ModelVersion]) -> Run:
    before, after = versions
    return make_run(after, purpose="compare", against=before, status="succeeded")


def seen(versions: tuple[ModelVersion, ModelVersion], base: ModelVersion, **figures: object) -> Sides:
    found = sides(compare_run(versions), Result.model_validate(compared(base, **figures)))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_the_ratio_is_the_inverse_of_the_speedup_when_the_version_before_was_the_base(versions):
    # before takes 1.25 to 1.6 times as long as after: after takes 0.625 to 0.8 of the time
    found = seen(versions, versions[0], low=1.25, high=1.6, verdict="faster")
    assert found.latency_ratio.low == pytest.approx(0.625)
    assert found.latency_ratio.high == pytest.approx(0.8)
    assert found.latency_ratio.value == pytest.approx(0.5**0.5)  # sqrt(0.625 * 0.8)
    assert (found.speedup.low, found.speedup.high) == (1.25, 1.6)
    assert found.verdict == Verdict.FASTER
    assert (found.against_name, found.version_name) == ("baseline", "other")


def test_the_ratio_is_the_speedup_when_the_version_itself_was_the_base(versions):
    # after takes 1.25 to 1.6 times as long as before: it is slower, whatever the document's own verdict says of `other`
    found = seen(versions, versions[1], low=1.25, high=1.6, verdict="faster")
    assert (found.latency_ratio.low, found.latency_ratio.high) == (1.25, 1.6)
    assert found.latency_ratio.value == pytest.approx(2**0.5)  # sqrt(1.25 * 1.6)
    assert found.speedup.low == pytest.approx(0.625)
    assert found.speedup.high == pytest.approx(0.8)
    assert found.verdict == Verdict.SLOWER
    assert (found.against_name, found.version_name) == ("other", "baseline")


@pytest.mark.parametrize("verdict", ["same", "cannot_tell"])
def test_no_difference_is_no_difference_from_either_side(versions, verdict):
    for base in versions:
        assert seen(versions, base, low=0.99, high=1.01, verdict=verdict).verdict == verdict


def test_the_same_bytes_uploaded_twice_are_compared_too(versions):
    before, after = versions
    ModelVersion.objects.filter(pk=after.pk).update(sha256=before.sha256)
    after.refresh_from_db()
    found = seen((before, after), before, low=0.98, high=1.02, verdict="same")
    assert found.latency_ratio.low == pytest.approx(1 / 1.02)
    assert found.latency_ratio.high == pytest.approx(1 / 0.98)


def test_it_says_nothing_of_a_document_about_other_uploads(versions):
    stranger = document("compare")  # the real one: its inspection names neither of the two
    assert sides(compare_run(versions), Result.model_validate(stranger)) is None


def test_it_says_nothing_without_an_inspection_or_a_comparison(versions):
    without = compared(versions[0], low=0.9, high=1.1)
    assert sides(compare_run(versions), Result.model_validate({**without, "inspection": None})) is None
    assert sides(compare_run(versions), Result.model_validate({**without, "comparisons": []})) is None


def test_it_says_nothing_of_a_run_that_compares_no_versions(versions):
    run = make_run(versions[1], purpose="optimize", status="succeeded")
    assert sides(run, Result.model_validate(compared(versions[1], low=0.9, high=1.1))) is None
