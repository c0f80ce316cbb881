"""Findings are ranked by what mending gives back, and time that two causes share is counted once."""

from __future__ import annotations

import pytest

from optimizer.diagnosing.base import RULES
from optimizer.diagnosing.traces.document import Idle, KernelRow, RankTrace
from optimizer.diagnosing.traces.ranking import ranked
from optimizer.diagnosing.traces.trace_rule import Claim, finding, kernels, pools, severity
from tests.optimizer.diagnosing.traces.plants import PLANTS, healthy
from tests.optimizer.diagnosing.traces.training import Training


def rank(**fields: object) -> RankTrace:
    return RankTrace.model_validate({"name": "t", "events": 1, "span_ms": 100.0, **fields})


def test_pools_add_up_to_the_span() -> None:
    one = Training().run(lambda training: PLANTS["exposed_communication"](training, 900)).read()
    assert sum(pools(one).values()) == pytest.approx(one.span_ms, rel=1e-6)


def test_of_kernels_side_by_side_each_has_its_part_of_the_timeline() -> None:
    rows = [
        KernelRow(name="a", kind="gemm", calls=1, total_ms=60),
        KernelRow(name="b", kind="copy", calls=1, total_ms=40),
    ]
    one = rank(busy_ms=50.0, kernels=2, kernel_rows=rows, idle=Idle(host_other_ms=50))
    assert {pool: ms for pool, ms in pools(one).items() if ms} == {
        "idle: host_other": 50, "kernels: gemm": 30, "kernels: copy": 20,
    }  # fmt: skip


def test_a_claim_on_kernels_is_on_their_part_of_the_timeline() -> None:
    rows = [
        KernelRow(name="a", kind="gemm", calls=1, total_ms=60),
        KernelRow(name="b", kind="copy", calls=1, total_ms=40),
    ]
    one = rank(busy_ms=50.0, kernels=2, kernel_rows=rows)  # 100 ms of kernels in 50 ms
    assert kernels(one, lambda row: row.name == "a") == {"kernels: gemm": 30}
    assert kernels(one, lambda row: row.name == "b", 0.25) == {"kernels: copy": 5}


def test_a_gain_is_the_time_now_over_the_time_then() -> None:
    claim = Claim("t", {}, ("do it",), takes={"idle: host_other": 40.0}, recovers=(0.5, 1.0), model="m")
    found = finding(RULES.get("host_wait"), rank(), claim)  # type: ignore[arg-type]
    assert found.gain is not None
    assert (found.gain.low, found.gain.high) == (1.25, round(100 / 60, 4))  # 100 / 80, 100 / 60
    assert (found.cost_ms, found.cost_share, found.severity) == (40.0, 0.4, "high")


def test_no_gain_reaches_beyond_a_time_of_nothing() -> None:
    claim = Claim("t", {}, (), takes={"idle: host_other": 100.0}, recovers=(0.5, 1.0))
    found = finding(RULES.get("host_wait"), rank(), claim)  # type: ignore[arg-type]
    assert found.gain is not None and found.gain.high == 20.0


@pytest.mark.parametrize(
    ("share", "told"),
    [(0.1, "high"), (0.099, "medium"), (0.03, "medium"), (0.029, "low"), (0.005, "low"), (0.004, "info")],
)
def test_severity_goes_by_the_share_of_the_time(share: float, told: str) -> None:
    assert severity(share) == told


def test_what_one_remedy_gives_back_no_other_gives_again() -> None:
    def plant(training: Training) -> None:
        PLANTS["exposed_communication"](training, 3000)

    found = ranked([Training().run(plant).read()])
    (exposed,) = [f for f in found.findings if f.rule == "exposed_communication"]
    (heavy,) = [f for f in found.findings if f.rule == "communication_heavy"]
    assert found.findings.index(exposed) < found.findings.index(heavy)
    assert exposed.cost_share == heavy.cost_share
    # alone it would give back 10 to 50 %; the other's 80 % are gone, and of the rest it gives its 30 % on the mean
    assert heavy.counted_share == pytest.approx(0.3 * 0.2 * (heavy.cost_share or 0), abs=2e-4)
    assert found.recoverable[1] <= (exposed.cost_share or 0) + 0.001


def test_two_causes_of_different_time_are_both_counted() -> None:
    def plant(training: Training) -> None:
        PLANTS["data_loading"](training, 2000)
        PLANTS["float64_leftovers"](training, 2000)

    found = ranked([Training().run(plant).read()])
    counted = {f.rule: f.counted_share for f in found.findings}
    assert counted["data_loading"] == pytest.approx(0.75 * 2 / 14, abs=0.02)
    assert counted["float64_leftovers"] == pytest.approx(0.735 * 2 / 14, abs=0.02)


def test_nothing_worth_doing_is_an_answer() -> None:
    found = ranked(healthy(4))
    assert (found.findings, found.recoverable, found.worth_doing) == ([], (0.0, 0.0), False)
