from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np
import pytest
from scipy import stats

from optimizer.benchmarking import bursts
from optimizer.benchmarking.judge import JudgeOutcome, Pair, judge, planned_looks
from optimizer.benchmarking.rounds import STEADY_BURSTS
from optimizer.benchmarking.screen import screen
from optimizer.benchmarking.sets import entrant, measure_set
from optimizer.benchmarking.summary import disturbed_shares, held_back, performance, raw_samples, recheck
from optimizer.errors import FuseworksError
from optimizer.result import Verdict
from optimizer.sandbox import Reply
from tests.optimizer.benchmarking.simulated import CALL_NS, SimulatedChild, drawer, starter

PAIR = Pair("baseline", "winner")


@pytest.fixture(autouse=True)
def made_up_times_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated calls take no time at all, so on a busy machine the outer clock would refuse them."""
    monkeypatch.setattr(bursts, "CLOCK_SLACK_NS", 10**12)
    # started one after another, so that the shared generator is asked in the same order every time
    monkeypatch.setattr("os.cpu_count", lambda: 1)


def agree(mine: Any, base: Any) -> str | None:
    return None if np.allclose(mine[0], base[0]) else "differs"


def run(seed: int, speedup: float, **options: Any) -> JudgeOutcome:
    rng = np.random.default_rng(seed)
    spread = {"process_sd": options.pop("process_sd", 0.008), "burst_sd": 0.012}
    starts = {"baseline": starter(rng, 1.0, **spread), "winner": starter(rng, speedup, **spread)}
    starts.update(options.pop("more", {}))
    settings = {"rounds": 4, "checks": {"winner": agree}, **options}
    return judge(starts, settings.pop("pairs", [PAIR]), drawer(rng), rng=rng, **settings)  # type: ignore[arg-type]


def test_a_clear_gain_is_faster_at_the_first_look() -> None:
    outcome = run(0, 1.5)
    comparison = outcome.comparison("baseline", "winner")
    assert comparison is not None
    assert (comparison.verdict, comparison.pairs, comparison.looks) == (Verdict.FASTER, 6, 1)
    assert comparison.interval.low < 1.5 < comparison.interval.high
    assert comparison.interval.confidence == 0.99
    assert comparison.speedup == pytest.approx(math.exp(np.mean(comparison.log_speedups)))
    assert outcome.noise_floor == comparison.noise_floor
    assert len(outcome.samples["winner"]) == 6
    assert len({id(e.child) for e in outcome.samples["winner"]}) == 6, "every pair needs processes of its own"
    assert all(e.child.killed for es in outcome.samples.values() for e in es)  # type: ignore[attr-defined]


def test_what_cannot_be_told_is_looked_at_three_times() -> None:
    outcome = run(5, 1.03, process_sd=0.03)
    comparison = outcome.comparison("baseline", "winner")
    assert comparison is not None
    assert (comparison.verdict, comparison.pairs, comparison.looks) == (Verdict.CANNOT_TELL, 18, 3)


def test_the_whole_judgement_of_equal_contenders_holds_its_level() -> None:
    trials = 60
    outcomes = [run(1000 + seed, 1.0, process_sd=0.02, rounds=2) for seed in range(trials)]
    comparisons = [o.comparison("baseline", "winner") for o in outcomes]
    wrong = sum(c is not None and c.verdict in {Verdict.FASTER, Verdict.SLOWER} for c in comparisons)
    assert wrong <= stats.binom.ppf(0.9999, trials, 0.01)
    missed = sum(c is not None and not c.interval.low <= 1.0 <= c.interval.high for c in comparisons)
    assert missed <= stats.binom.ppf(0.9999, trials, 0.01)


def test_a_planted_five_percent_is_found_by_the_whole_judgement() -> None:
    verdicts = [run(2000 + s, 1.05).comparison("baseline", "winner") for s in range(20)]
    assert sum(c is not None and c.verdict == Verdict.FASTER for c in verdicts) >= 17


def test_the_deadline_stops_it_but_never_before_the_first_look() -> None:
    outcome = run(4, 1.03, process_sd=0.03, deadline=time.monotonic() - 1)
    assert outcome.sets == 6
    assert outcome.notes == ["stopped after 6 of up to 18 sets: the time budget is over"]
    comparison = outcome.comparison("baseline", "winner")
    assert comparison is not None and comparison.pairs == 6 and comparison.looks == 1


def test_far_past_the_budget_it_stops_with_what_is_there_and_gives_no_verdict() -> None:
    past = time.monotonic() - 1
    outcome = run(0, 1.5, deadline=past, last_deadline=past)
    assert outcome.sets == 3, "an interval over two says nothing"
    assert outcome.notes == ["stopped after 3 of up to 18 sets: the time budget is over"]
    comparison = outcome.comparison("baseline", "winner")
    assert comparison is not None
    # 1.5 is found by three pairs as well, and still nobody may call it faster: no look was planned there
    assert (comparison.verdict, comparison.pairs, comparison.looks) == (Verdict.CANNOT_TELL, 3, 1)
    assert comparison.reason == "only 3 of the 6 pairs that a verdict needs fitted into the time"


def test_a_budget_that_is_over_by_less_leaves_the_first_look_its_six_sets() -> None:
    now = time.monotonic()
    outcome = run(4, 1.03, process_sd=0.03, deadline=now - 1, last_deadline=now + 600)
    comparison = outcome.comparison("baseline", "winner")
    assert comparison is not None
    assert (outcome.sets, comparison.reason) == (6, None)


def test_stopping_for_time_does_not_depend_on_what_was_measured() -> None:
    past = time.monotonic() - 1
    for seed in range(5):
        for speedup in (0.5, 1.0, 2.0):
            assert run(seed, speedup, deadline=past, last_deadline=past).sets == 3


def test_without_a_verdict_it_goes_on_for_as_long_as_it_may() -> None:
    over, ahead = time.monotonic() - 1, time.monotonic() + 600
    untold = run(5, 1.03, process_sd=0.03, deadline=over, untold_deadline=ahead)
    assert (untold.sets, untold.looks) == (18, 3)
    told = run(
        0,
        1.5,
        deadline=over,
        untold_deadline=ahead,
        more={"best_peer": starter(np.random.default_rng(3), 1.46, 0.05)},
        pairs=[PAIR, Pair("best_peer", "winner")],
    )
    assert told.sets == 6, "the first pair is told; the second alone is not waited for"
    assert told.comparison("best_peer", "winner").verdict == Verdict.CANNOT_TELL  # type: ignore[union-attr]


def test_looks_are_planned_within_the_policys_pairs() -> None:
    assert planned_looks(18) == (6, 12, 18)
    assert planned_looks(6) == (6,)
    assert planned_looks(10) == (6, 10)
    assert planned_looks(40) == (6, 12, 40)


def test_all_pairs_need_a_verdict_before_it_stops() -> None:
    rng = np.random.default_rng(4)
    more = {"best_peer": starter(rng, 1.31, 0.03)}
    pairs = [PAIR, Pair("best_peer", "winner")]
    outcome = run(4, 1.3, more=more, pairs=pairs)
    assert outcome.sets > 6
    assert {(c.base, c.other) for c in outcome.comparisons} == {("baseline", "winner"), ("best_peer", "winner")}


def test_a_pair_that_is_not_awaited_is_told_without_holding_anything_up() -> None:
    rng = np.random.default_rng(4)
    more = {"best_peer": starter(rng, 1.31, 0.03)}
    outcome = run(4, 1.3, more=more, pairs=[PAIR, Pair("best_peer", "winner", awaited=False)])
    assert outcome.sets == 6
    untold = outcome.comparison("best_peer", "winner")
    assert untold is not None and untold.verdict == Verdict.CANNOT_TELL


@pytest.mark.parametrize(("winner_speedup", "moot", "pairs"), [(1.8, True, 6), (1.8, False, 18), (1.0, True, 18)])
def test_how_fast_a_peer_is_by_itself_holds_nothing_up_once_it_has_lost(
    winner_speedup: float, moot: bool, pairs: int
) -> None:
    rng = np.random.default_rng(4)
    more = {"best_peer": starter(rng, 1.03, process_sd=0.05, burst_sd=0.012)}
    own = Pair("baseline", "best_peer", moot=("best_peer", "winner") if moot else None)
    outcome = run(4, winner_speedup, more=more, pairs=[PAIR, Pair("best_peer", "winner"), own])
    peer = outcome.comparison("baseline", "best_peer")
    assert peer is not None
    assert (peer.verdict, peer.pairs) == (Verdict.CANNOT_TELL, pairs)


def test_a_contender_that_fails_drops_out_and_the_others_go_on() -> None:
    starts = itertools.count()

    def broken() -> SimulatedChild:
        if next(starts) == 1:
            raise FuseworksError("child:user:crashed", signal="SIGSEGV")
        return SimulatedChild(np.random.default_rng(0), 1.0, 0.01, 0.01)

    outcome = run(5, 1.5, more={"best_peer": broken}, pairs=[PAIR, Pair("best_peer", "winner")])
    assert outcome.failed["best_peer"].id == "child:user:crashed"
    assert [(c.base, c.other) for c in outcome.comparisons] == [("baseline", "winner")]
    assert "best_peer" not in outcome.samples


def test_the_baselines_failure_ends_the_judgement_and_kills_every_child() -> None:
    rng = np.random.default_rng(0)
    started: list[SimulatedChild] = []

    def start() -> SimulatedChild:
        started.append(SimulatedChild(rng, 1.0, 0.01, 0.01))
        return started[-1]

    def broken() -> SimulatedChild:
        raise FuseworksError("child:user:crashed", signal="SIGKILL")

    starts: Any = {"baseline": broken, "winner": start}
    with pytest.raises(FuseworksError, match="SIGKILL"):
        judge(starts, [PAIR], drawer(rng), rng=rng)
    assert all(child.killed for child in started)


def test_once_a_set_the_reference_is_what_the_answers_are_held_against() -> None:
    class Reference(SimulatedChild):
        asked = 0

        def run(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Any:
            Reference.asked += 1
            answers = [array * 3 for array in arrays]
            return Reply(
                {"outputs_per_set": 1, "failed": {}, "mutated": [], "seconds": [0.1] * len(answers), "overwritten": 0},
                answers,
            )

    rng = np.random.default_rng(12)
    reference = Reference(rng, 1.0, 0, 0)
    starts: Any = {"baseline": starter(rng), "winner": starter(rng)}
    options: Any = {"baseline": "baseline", "rng": rng, "rounds": 3, "checks": {"winner": agree}}
    assert measure_set(starts, drawer(rng), **options).failed == {}
    one = measure_set(starts, drawer(rng), reference=reference, **options)  # type: ignore[arg-type]
    assert one.failed["winner"].id == "benchmarking:user:answers-changed"
    assert Reference.asked == 1


class Drifting(SimulatedChild):
    """Right in its first bursts, wrong afterwards: what a check before timing cannot see."""

    def answer(self, staged: np.ndarray) -> np.ndarray:
        self.bursts_seen = getattr(self, "bursts_seen", 0) + 1
        return staged * 2 if self.bursts_seen <= 2 else staged * 2.5


def test_answers_are_checked_after_timing() -> None:
    rng = np.random.default_rng(6)
    outcome = run(6, 1.0, more={"winner": lambda: Drifting(rng, 9.0, 0.01, 0.01)})
    assert outcome.failed["winner"].id == "benchmarking:user:answers-changed"
    assert outcome.comparisons == []
    assert outcome.notes == ["every contender that was to be compared dropped out"]


def test_only_one_process_runs_at_a_time() -> None:
    rng = np.random.default_rng(7)
    children: list[SimulatedChild] = []

    class Watched(SimulatedChild):
        def go(self, arrays: Any, fields: Any) -> Any:
            assert [c for c in children if c.running and not c.killed] == [self]
            return super().go(arrays, fields)

    def start() -> SimulatedChild:
        children.append(Watched(rng, 1.0, 0.01, 0.01))
        return children[-1]

    starts: Any = {"baseline": start, "winner": start, "best_peer": start}
    one = measure_set(starts, drawer(rng), baseline="baseline", rng=rng, rounds=3)
    assert {name: len(e.bursts) for name, e in one.entrants.items()} == dict.fromkeys(starts, 3)


def test_contenders_of_a_round_answer_the_same_inputs_in_a_random_order() -> None:
    rng = np.random.default_rng(8)
    order: list[str] = []
    inputs: dict[str, list[bytes]] = {"baseline": [], "winner": []}

    class Named(SimulatedChild):
        name = ""

        def go(self, arrays: Any, fields: Any) -> Any:
            order.append(self.name)
            inputs[self.name].append(b"".join(a.tobytes() for a in self.staged[: self.calls]))
            return super().go(arrays, fields)

    def start(name: str) -> Any:
        def begin() -> SimulatedChild:
            child = Named(rng, 1.0, 0.01, 0.01)
            child.name = name
            return child

        return begin

    starts = {name: start(name) for name in inputs}
    measure_set(starts, drawer(rng), baseline="baseline", rng=rng, rounds=12)
    # each settles by itself first, on inputs of its own
    order = order[2 * STEADY_BURSTS :]
    baseline, winner = (asked[STEADY_BURSTS:] for asked in inputs.values())
    assert baseline == winner
    assert len(set(winner)) == 12
    firsts = {order[i] for i in range(0, len(order), 2)}
    assert firsts == {"baseline", "winner"}


def test_screening_estimates_the_speedup_and_leaves_both_children_running() -> None:
    rng = np.random.default_rng(9)
    candidate, baseline = (entrant(n, SimulatedChild(rng, s, 0, 0.01)) for n, s in (("c", 2.0), ("b", 1.0)))  # type: ignore[arg-type]
    screened = screen(candidate, baseline, drawer(rng), rng=rng, items=256)
    assert screened.speedup == pytest.approx(2.0, rel=0.05)
    assert screened.performance.screened
    assert screened.performance.throughput_per_s == pytest.approx(256e9 / (CALL_NS / 2), rel=0.05)
    assert candidate.child.running and baseline.child.running  # type: ignore[attr-defined]
    again = screen(candidate, baseline, drawer(rng), rng=rng, items=256)
    assert again.speedup == pytest.approx(2.0, rel=0.05)


def test_screening_refuses_answers_that_disagree() -> None:
    rng = np.random.default_rng(10)
    wrong = Drifting(rng, 1.0, 0, 0.01)
    with pytest.raises(FuseworksError) as caught:
        screen(
            entrant("wrong", wrong),  # type: ignore[arg-type]
            entrant("b", SimulatedChild(rng, 1.0, 0, 0.01)),  # type: ignore[arg-type]
            drawer(rng),
            rng=rng,
            items=1,
            check=agree,
        )
    assert caught.value.id == "benchmarking:user:answers-changed"
    assert wrong.running


def test_performance_is_worked_out_from_all_calls_of_all_processes() -> None:
    entrants = []
    for times in ([1, 2, 3], [4, 10]):
        one = bursts.Entrant("x", None, load_s=0.5, base_rss_bytes=3 << 20, peak_rss_bytes=7 << 20)  # type: ignore[arg-type]
        calls = np.array(times, dtype=np.int64) * 1_000_000
        one.bursts.append(bursts.Burst(calls, int(calls.sum()), page_faults=10, wait_ns=0))
        entrants.append(one)
    figures = performance(entrants, items=100, compile_s=2.0)
    assert (figures.median_ms, figures.mean_ms, figures.calls, figures.processes) == (3.0, 4.0, 5, 2)
    assert figures.p90_ms == pytest.approx(7.6)
    assert figures.throughput_per_s == 25_000.0
    assert figures.peak_memory_bytes == 4 << 20
    assert figures.page_faults_per_call == 4.0
    assert raw_samples(entrants)[1]["calls_ns"] == [[4_000_000, 10_000_000]]


def test_the_share_of_disturbed_bursts_is_shown_by_contender() -> None:
    one = bursts.Entrant("x", None)  # type: ignore[arg-type]
    for wait_ns in (0, 100_000, 110_000, None):  # of 10 ms: nothing, 1 %, more than that, not known
        one.bursts.append(bursts.Burst(np.array([9_000_000]), 10_000_000, page_faults=0, wait_ns=wait_ns))
    idle = bursts.Entrant("idle", None)  # type: ignore[arg-type]
    assert disturbed_shares({"x": [one], "x twice": [one, one], "idle": [idle]}) == {
        "x": 0.25,
        "x twice": 0.25,
        "idle": 0.0,
    }


def test_more_than_ten_times_faster_or_below_the_roof_is_held_back() -> None:
    assert held_back(9.9, 1.0) is None
    assert held_back(10.1, 1.0) == "it is 10.1 times faster than the baseline"
    assert "roofs allow no less than 2 ms" in str(held_back(3.0, 1.0, roofline_ms=2.0))
    assert held_back(3.0, 2.5, roofline_ms=2.0) is None


def test_a_recheck_compares_every_answer_and_the_speedup() -> None:
    rng = np.random.default_rng(11)
    starts: Any = {"baseline": starter(rng), "winner": starter(rng, 12.0)}
    options: Any = {"rng": rng, "checks": {"winner": agree}}
    assert recheck(starts, "baseline", "winner", drawer(rng), judged_speedup=12.0, **options) is None
    reason = recheck(starts, "baseline", "winner", drawer(rng), judged_speedup=40.0, **options)
    assert reason is not None and "not 40.00 times" in reason
    starts["winner"] = lambda: Drifting(rng, 12.0, 0.01, 0.01)
    with pytest.raises(FuseworksError, match="answered otherwise"):
        recheck(starts, "baseline", "winner", drawer(rng), judged_speedup=12.0, **options)
