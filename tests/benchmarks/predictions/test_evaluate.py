"""Each model is predicted from the others; the constant that they are held against is chosen after the fact."""

from __future__ import annotations

import math

import pytest

from benchmarks.predictions.evaluate import evaluate
from benchmarks.predictions.report import markdown
from optimizer.diagnosing.correcting import Record, fit
from tests.benchmarks.predictions.test_recording import HEADER, variant


def drawn(slope: float, models: int = 5) -> list[Record]:
    return [
        Record("rule: pass p", f"model {m}", gain / 1.2, gain * 1.2, gain**slope)
        for m in range(models)
        for gain in (1.05, 1.3, 1.9)
    ]


def test_predictions_that_are_twice_too_much_are_corrected_on_models_that_were_not_seen() -> None:
    found = evaluate(drawn(0.5))
    # log(1.3) / 2 is the median of what came out; means of the three distances
    logs = [0.5 * math.log(gain) for gain in (1.05, 1.3, 1.9)]
    assert found.constant == pytest.approx(math.sqrt(1.3), abs=1e-4)
    assert found.constant_error == pytest.approx(sum(abs(one - logs[1]) for one in logs) / 3, abs=1e-4)
    assert found.raw.bias == pytest.approx(sum(logs) / 3, abs=1e-4)
    assert found.raw.width == pytest.approx(1.44, abs=1e-4)
    assert abs(found.corrected.bias) < 0.01 and found.corrected.error < 0.02
    assert found.corrected.coverage >= 0.75 and found.corrected.width < 1.1
    assert found.holds


def test_a_model_unlike_all_others_is_what_they_do_not_tell() -> None:
    odd = [Record("rule: pass p", "odd", 1.5, 1.6, 0.8)]
    found = evaluate([*drawn(1.0), *odd])
    assert found.corrected.records == 16 and found.corrected.models == 6
    assert found.corrected.coverage == pytest.approx(15 / 16, abs=1e-4)


def test_of_one_model_nothing_can_be_left_out() -> None:
    with pytest.raises(ValueError, match="two models"):
        evaluate(drawn(1.0, models=1))


def test_the_report_says_what_was_measured_and_whether_the_goals_hold() -> None:
    records = drawn(0.5)
    variants = [variant("a"), variant("a", 4, beside_other_work=True), variant("b", lost="it failed")]
    text = markdown(HEADER, variants, evaluate(records), fit(records, target="cpu"))
    assert "1 models and 1 variants of them" in text
    assert "1 of them were recorded while other work wanted the cores. 1 more could not be measured." in text
    assert "these hold." in text
    assert "| rule: pass p | 15 | 5 |" in text
