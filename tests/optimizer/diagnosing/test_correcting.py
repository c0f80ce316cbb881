"""Corrections: what they learn from records, how few lean on many, and that intervals hold as often as they say."""

from __future__ import annotations

import math
import random

import pytest

from optimizer.diagnosing.base import Evidence, correct, diagnosed, key_of
from optimizer.diagnosing.correcting import CONFIDENCE, Calibration, Correction, Record, fit, packaged
from optimizer.result import Finding, PredictedGain


def record(key: str, model: str, predicted: float, realised: float) -> Record:
    """An interval of twenty per cent around `predicted`."""
    return Record(key, model, predicted / 1.1, predicted * 1.1, realised)


def exact(key: str, slope: float, models: int = 4) -> list[Record]:
    """log(realised) is exactly `slope` times log(predicted)."""
    return [
        record(key, f"model {index}", gain, gain**slope) for index in range(models) for gain in (1.05, 1.2, 1.5, 2.0)
    ]


def middle(interval: tuple[float, float]) -> float:
    return math.sqrt(interval[0] * interval[1])


def test_predictions_that_came_true_stay_and_become_narrow() -> None:
    found = fit(exact("a", 1.0), target="cpu")
    low, high = found.corrected("a", 1.2, 1.8)
    assert middle((low, high)) == pytest.approx(middle((1.2, 1.8)), rel=0.002)
    assert high / low < 1.01


def test_a_remedy_that_always_gives_less_is_predicted_to_give_less() -> None:
    found = fit([*exact("half", 0.5), *exact("true", 1.0)], target="cpu")
    assert middle(found.corrected("half", 1.5, 1.5)) < middle(found.corrected("true", 1.5, 1.5)) - 0.1
    # its own sixteen records lean on everybody's, whose mean slope is 0.75
    assert 0.5 < found.by_remedy["half"].slope < 0.75 < found.by_remedy["true"].slope < 1.0


def test_one_record_of_a_remedy_says_little_against_everybodys() -> None:
    everybody = [r for number in range(6) for r in exact(f"true {number}", 1.0)]
    found = fit([*everybody, record("odd", "model 1", 1.5, 1.0)], target="cpu")
    assert found.by_remedy["odd"].records == 1
    assert middle(found.corrected("odd", 1.5, 1.5)) > 1.2


def test_a_remedy_that_nobody_recorded_is_corrected_by_all() -> None:
    found = fit(exact("half", 0.5), target="cpu")
    assert found.corrected("never seen", 1.5, 1.5) == found.pooled.corrected(1.5, 1.5)
    assert middle(found.corrected("never seen", 1.5, 1.5)) == pytest.approx(1.5**0.5, rel=0.02)
    assert "none of this remedy" in found.in_words("never seen")
    assert found.in_words("half") == "corrected by 16 measured gains of this remedy, on 4 models, and by all others"


def test_a_constant_bias_moves_the_middle() -> None:
    # every gain is ten per cent beyond what was predicted, also where nothing was
    records = [record("a", f"model {m}", gain, 1.1 * gain) for m in range(5) for gain in (1.0, 1.01, 1.02)]
    assert middle(fit(records, target="cpu").corrected("a", 1.01, 1.01)) == pytest.approx(1.1 * 1.01, rel=0.02)


def test_the_width_is_told_by_models_that_were_not_seen() -> None:
    # within a model all is alike, models differ: what holds on the models that were seen would be far too narrow
    ups = {f"model {index}": (1.3 if index % 2 else 1.0) for index in range(6)}
    records = [record("a", model, 1.2, up) for model, up in ups.items() for _ in range(10)]
    low, high = fit(records, target="cpu").corrected("a", 1.2, 1.2)
    assert low <= 1.0 and high >= 1.3


@pytest.mark.parametrize("scatter", [0.05, 0.2])
def test_intervals_hold_as_often_as_they_say_on_models_that_were_not_seen(scatter: float) -> None:
    rng = random.Random(7)

    def drawn(models: range) -> list[Record]:
        return [
            record(key, f"model {m}", gain, math.exp(0.6 * math.log(gain) + rng.gauss(0, scatter)))
            for m in models
            for key in ("a", "b", "c")
            for gain in (1.05, 1.2, 1.6)
        ]

    found = fit(drawn(range(40)), target="cpu")
    fresh = drawn(range(100, 500))
    held = [low <= r.realised <= high for r in fresh for low, high in [found.corrected(r.key, r.low, r.high)]]
    # the scatter does not grow with the gain here, as the scale supposes: 80 % holds over all of them
    assert CONFIDENCE - 0.05 <= sum(held) / len(held) <= CONFIDENCE + 0.08


def test_no_record_is_nothing_to_fit() -> None:
    with pytest.raises(ValueError, match="no record"):
        fit([], target="cpu")


def test_the_middle_and_the_ends_by_hand() -> None:
    one = Correction(records=1, models=1, slope=0.5, centre=0.1, half_width=0.2)
    low, high = one.corrected(1.21, 1.21)
    predicted = math.log(1.21)
    scale = 0.05 + predicted
    assert math.log(low) == pytest.approx(0.5 * predicted + 0.1 * scale - 0.2 * scale)
    assert math.log(high) == pytest.approx(0.5 * predicted + 0.1 * scale + 0.2 * scale)


# ---- in a diagnosis ------------------------------------------------------------------------------------------------


def calibration(**slopes: float) -> Calibration:
    pooled = Correction(records=9, models=3, slope=1.0, centre=0.0, half_width=0.5)
    by_remedy = {
        key: Correction(records=4, models=2, slope=slope, centre=0.0, half_width=0.0) for key, slope in slopes.items()
    }
    return Calibration(target="cpu", sources=[], pooled=pooled, by_remedy=by_remedy)


def finding(rule: str, *mended_by: dict[str, object]) -> Finding:
    gain = PredictedGain(low=1.44, high=1.44, model="a share")
    return Finding(rule=rule, severity="low", title="slow", gain=gain, mended_by=list(mended_by))


def test_a_correction_keeps_what_it_was_worked_out_from_and_says_by_what() -> None:
    mended, other = finding("a", {"pass": "split"}), finding("a")
    correct([mended, other], Calibration.model_validate(calibration(**{"a: pass split": 0.5})))
    assert mended.gain is not None and other.gain is not None
    assert (mended.gain.low, mended.gain.high, mended.gain.confidence) == (1.2, 1.2, 0.8)
    assert mended.gain.uncorrected == (1.44, 1.44)
    assert mended.gain.model.startswith("a share; corrected by 4 measured gains of this remedy, on 2 models")
    # what no plan can do is never measured, and stays as it was worked out
    assert (other.gain.low, other.gain.confidence, other.gain.uncorrected) == (1.44, None, None)


def test_records_are_kept_by_rule_and_remedy() -> None:
    assert key_of(finding("page_faults", {"runtime": {"threads": 1}})) == "page_faults: setting threads"


def test_the_package_has_a_calibration_that_reads_and_speaks_of_processors() -> None:
    found = packaged()
    assert found is not None and found.target == "cpu" and found.confidence == CONFIDENCE
    assert found.sources and found.pooled.records >= 40
    low, high = found.corrected("rewritable_structure: pass merge_embedding_tables", 1.05, 1.2)
    assert 0 < low < high


def test_other_targets_than_the_calibrations_are_not_corrected() -> None:
    from optimizer.result import Profile

    def faults(target: str) -> PredictedGain:
        profile = Profile(total_ms=10.0, unprofiled_ms=10.0, page_faults_per_call=4000)
        evidence = Evidence(profile=profile, rewrites=(), dynamic_batch=True, target=target)
        (one,) = diagnosed(evidence).findings
        assert one.gain is not None
        return one.gain

    assert faults("cuda:sm_90").uncorrected is None
    # 4,000 faults of 0.25 to 1.5 us are 1 to 6 of 10 ms
    assert (faults("cuda:sm_90").low, faults("cuda:sm_90").high) == (round(10 / 9, 4), 2.5)
    assert faults("cpu").uncorrected == (round(10 / 9, 4), 2.5)
