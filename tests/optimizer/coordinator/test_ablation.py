"""Each step of the winner is measured on the winner where that could be built, else on the leader; each row says so."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from optimizer.benchmarking.bursts import Burst, Entrant
from optimizer.benchmarking.sets import MeasuredSet
from optimizer.coordinator import ablation
from optimizer.coordinator.builds import Builds
from optimizer.coordinator.judging import FinalScreening
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import Facts, Planner, tidying
from optimizer.result import Rewrite, Site, Verdict
from optimizer.spec import Policy, RuntimeSettings
from tests.optimizer.coordinator.support import context

CRASHED = FuseworksError("child:user:crashed", signal="SIGSEGV")
# In the order of the planner: those that change the arithmetic first.
PASSES = {"split": "reassociates", "fuse": "reassociates", "merge": "exact", "remove_noops": "exact"}
LEADER = "aot_inductor + rewrites"
WINNER = f"{LEADER} - merge"


def rewrite(name):
    sites = [Site(node="n", reason="done")]
    return Rewrite(pass_=name, applied=sites, numerics=PASSES[name], nodes_before=9, nodes_after=8, seconds=0.1)


def planner():
    facts = Facts("pt2", "eager", {"aot_inductor": None}, RuntimeSettings(huge_pages=True), Policy(), None)
    return Planner(facts, [rewrite(name) for name in PASSES])


class Shop:
    """Builds at once; `begun` says in which order."""

    def __init__(self):
        self.built, self.begun, self.failures = set(), [], {}

    def build(self, candidate):
        if candidate.name in self.failures:
            raise FuseworksError("child:user:crashed", signal=self.failures[candidate.name])
        if candidate.name not in self.built:
            self.begun.append(candidate.name)
            self.built.add(candidate.name)
        return SimpleNamespace(reused=False, candidate=candidate)

    def is_built(self, candidate):
        # runtime settings do not decide the artifact
        return candidate.name.removesuffix(" - runtime settings") in self.built

    def why_not(self, candidate):
        return f"died of {self.failures[candidate.name]}" if candidate.name in self.failures else None


class Slow(Builds):
    """Says that every build takes `each_s`."""

    each_s = 0.0

    def took_s(self, candidate):
        return self.each_s


@pytest.fixture
def scene(tmp_path):
    """The leader has four rewrites and 3.0x; without `merge` it is the winner with 3.2x, without `split` 1.5x."""
    plan, shop = planner(), Shop()
    leader = plan.first_rewritten()[0]
    variants = [one for one in plan.leave_one_out(leader) if not tidying(one.steps)]
    shop.built |= {leader.name, *(one.without.name for one in variants)}
    speedups = {leader.name: 3.0, f"{LEADER} - split": 1.5, f"{LEADER} - fuse": 2.9, WINNER: 3.2}
    bench = SimpleNamespace(
        context=context(tmp_path, budget_s=1000),
        shop=shop,
        verifier=SimpleNamespace(agreement=lambda precision: lambda mine, base: None),
        workload=SimpleNamespace(sizes=dict),
        captured=SimpleNamespace(samples=None),
        answer=SimpleNamespace(same_settings=SimpleNamespace(noise_floor=0.0)),
    )
    winner = next(one.without for one in variants if one.without.name == WINNER)
    builds = Slow(bench)
    yield SimpleNamespace(
        bench=bench,
        shop=shop,
        planner=plan,
        builds=builds,
        leader=leader,
        winner=winner,
        variants=variants,
        final=FinalScreening(speedups, {}, 10.0),
    )
    builds.close()


def asked(scene, each_s):
    scene.builds.each_s = each_s
    return ablation.questions(scene.bench, scene.planner, scene.builds, scene.winner, scene.variants, scene.final)


def plans(found):
    return [(one.without.name, one.whole.name) for one in found]


def test_with_time_enough_every_step_is_left_out_of_the_winner_the_costliest_first(scene):
    # of 1000 s, 300 are kept for six sets of five contenders at 10 s, and 162 for three sets of five and the package:
    # 538 s are left, enough for two rounds of two builds
    found = asked(scene, each_s=250.0)
    assert plans(found) == [
        (f"{WINNER} - runtime settings", WINNER),
        (f"{WINNER} - split", WINNER),
        (f"{WINNER} - fuse", WINNER),
        (f"{WINNER} - tidying", WINNER),
    ]
    assert sorted(scene.shop.begun) == [f"{WINNER} - fuse", f"{WINNER} - split", f"{WINNER} - tidying"]


def test_what_cannot_be_built_in_time_is_asked_of_the_leader_where_that_was_built(scene):
    scene.builds.workers = 1
    found = asked(scene, each_s=300.0)  # one fits
    assert scene.shop.begun == [f"{WINNER} - split"]
    assert plans(found) == [
        (f"{WINNER} - runtime settings", WINNER),
        (f"{WINNER} - split", WINNER),
        (f"{LEADER} - fuse", LEADER),
        (f"{WINNER} - tidying", WINNER),  # built nowhere: it stays, to be answered with the reason
    ]


def test_no_build_is_begun_that_would_eat_the_time_of_the_judgement(scene):
    found = asked(scene, each_s=539.0)
    assert scene.shop.begun == []
    assert plans(found)[1:3] == [(f"{LEADER} - split", LEADER), (f"{LEADER} - fuse", LEADER)]


def test_a_build_that_fails_is_made_up_for_by_the_leader_too(scene):
    scene.shop.failures[f"{WINNER} - split"] = "SIGSEGV"
    assert plans(asked(scene, each_s=0.0))[1] == (f"{LEADER} - split", LEADER)


def test_a_winner_that_is_the_leader_needs_no_build_but_the_one_without_its_tidying(scene):
    scene.winner = scene.leader
    found = asked(scene, each_s=100.0)
    assert scene.shop.begun == [f"{LEADER} - tidying"]
    # by what they cost when left out: 3.0/1.5, 3.0/2.9, 3.0/3.2
    assert [name.rpartition(" - ")[2] for name, _ in plans(found)] == [
        "runtime settings",
        "split",
        "fuse",
        "merge",
        "tidying",
    ]
    assert {whole for _, whole in plans(found)} == {LEADER}


def test_no_ablation_means_no_question_and_no_build(scene, tmp_path):
    scene.bench.context = context(tmp_path, budget_s=1000, ablation=False)
    assert asked(scene, each_s=0.0) == []
    assert scene.shop.begun == []


# ---- measuring -----------------------------------------------------------------------------------------------------


class Sets:
    """Takes the place of `measure_set`: a call of a contender takes `times_ms`, 10 ms where that does not say."""

    def __init__(self, times_ms, fail_in_set=None):
        self.times_ms, self.fail_in_set = times_ms, fail_in_set or {}
        self.contenders = []

    def __call__(self, starts, draw, *, baseline, rng, rounds, checks):
        assert baseline == "winner"
        assert set(checks) >= set(starts) - {"winner"}, "every other answer is compared"
        number = len(self.contenders)
        self.contenders.append(set(starts))
        failed = {name: CRASHED for name in starts if self.fail_in_set.get(name) == number}
        entrants = {}
        for name in set(starts) - set(failed):
            calls = np.array([self.times_ms.get(name, 10.0) * 1e6], dtype=np.int64)
            entrants[name] = Entrant(name, None, bursts=[Burst(calls, int(calls.sum()), 0, 0)])
        return MeasuredSet(entrants, failed, seconds=0.0, load_average=0.0)


@pytest.fixture
def measured(scene, monkeypatch):
    """Asks all of the winner's steps, with `built` of them possible, and gives rows by step and the fake sets."""

    def measure(times_ms, *, each_s=0.0, left_s=600.0, fail_in_set=None, found=None, spare_s=0.0):
        sets = Sets(times_ms, fail_in_set)
        monkeypatch.setattr(ablation, "measure_set", sets)
        found = asked(scene, each_s) if found is None else found
        deadline = time.monotonic() + left_s
        rows = ablation.ablate(scene.bench, scene.winner, found, contender_s=10.0, deadline=deadline, spare_s=spare_s)
        names = ["settings", *(row.step.get("pass") or "+".join(row.step["passes"]) for row in rows[1:])]
        return dict(zip(names, rows, strict=True)), sets

    return measure


def test_a_row_is_time_without_over_time_with_on_the_plan_that_it_names(measured, scene):
    # the winner cannot be built without steps: `split` and `fuse` are left out of the leader, which takes 12.5 ms
    times = {LEADER: 12.5, f"{LEADER} - split": 25.0, f"{LEADER} - fuse": 12.5, f"{WINNER} - runtime settings": 15.0}
    rows, sets = measured(times, each_s=1000.0)
    assert {name: row.measured_on for name, row in rows.items()} == {
        "settings": None,
        "split": LEADER,
        "fuse": LEADER,
        "remove_noops": None,
    }
    assert rows["settings"].gain == pytest.approx(1.5)
    assert rows["split"].gain == pytest.approx(2.0)
    assert rows["fuse"].gain == pytest.approx(1.0)
    assert (rows["split"].verdict, rows["fuse"].verdict) == (Verdict.FASTER, Verdict.SAME)
    assert rows["split"].pairs == 5 and rows["split"].interval is not None
    assert rows["remove_noops"].gain is None
    assert rows["remove_noops"].reason == "it was not built within the time budget"
    assert sets.contenders[0] == {"winner", *times}


def test_a_row_measured_on_the_winner_names_no_other_plan_and_starts_no_leader(measured):
    rows, sets = measured({f"{WINNER} - split": 30.0})
    assert rows["split"].gain == pytest.approx(3.0)
    assert {row.measured_on for row in rows.values()} == {None}
    assert LEADER not in sets.contenders[0]


def test_steps_that_the_time_left_cannot_measure_are_not_begun_and_say_so(measured):
    # three sets of winner, settings and split at 10 s a contender are 90 s; one more would be 120 s
    rows, sets = measured({f"{WINNER} - split": 30.0}, left_s=100.0)
    assert sets.contenders[0] == {"winner", f"{WINNER} - runtime settings", f"{WINNER} - split"}
    assert rows["split"].pairs == 5
    assert [rows[name].reason for name in ("fuse", "remove_noops")] == [ablation.NO_ROOM] * 2
    assert [rows[name].gain for name in ("fuse", "remove_noops")] == [None, None]


def test_a_leader_that_must_be_started_too_takes_its_room(measured):
    # winner, settings and a `split` on the leader are four contenders: 120 s
    rows, _ = measured({}, each_s=1000.0, left_s=119.0)
    assert rows["settings"].pairs == 5
    assert rows["split"].reason == ablation.NO_ROOM and rows["split"].measured_on is None
    rows, _ = measured({}, each_s=1000.0, left_s=121.0)
    assert rows["split"].measured_on == LEADER


def test_what_comes_after_costs_sets_beyond_the_fewest_and_no_row(measured):
    rows, sets = measured({f"{WINNER} - split": 30.0}, spare_s=10_000.0)
    assert len(sets.contenders) == ablation.MIN_ABLATION_SETS
    assert all(row.gain is not None for row in rows.values())
    assert rows["split"].pairs == 3


def test_no_time_at_all_measures_nothing_and_every_row_says_why(measured):
    rows, sets = measured({}, left_s=-5.0)
    assert sets.contenders == []
    assert {row.reason for row in rows.values()} == {ablation.NO_ROOM}


def test_once_begun_it_takes_the_sets_that_an_interval_needs_and_no_more_past_the_deadline(measured, monkeypatch):
    # 600 s are left when it begins; by the end of the third set they are long over
    clock = iter([time.monotonic(), *[time.monotonic() + 10_000.0] * 99])
    monkeypatch.setattr(ablation, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    rows, sets = measured({}, left_s=600.0)
    assert len(sets.contenders) == 3
    assert rows["split"].pairs == 3 and rows["split"].interval is not None


def test_a_plan_that_fails_on_the_way_ends_its_row_alone(measured):
    rows, sets = measured({}, fail_in_set={f"{WINNER} - split": 1})
    assert rows["split"].gain is None
    assert rows["split"].reason == "without it: The process running the model died of SIGSEGV."
    assert rows["fuse"].pairs == 5
    assert f"{WINNER} - split" in sets.contenders[1] and f"{WINNER} - split" not in sets.contenders[2]


def test_a_leader_that_fails_ends_the_rows_that_were_to_be_measured_on_it(measured):
    rows, sets = measured({}, each_s=1000.0, fail_in_set={LEADER: 0})
    assert rows["settings"].pairs == 5
    for name in ("split", "fuse"):
        assert rows[name].gain is None
        assert rows[name].reason.startswith("the plan that it would be measured on: The process")
    assert sets.contenders[1] == {"winner", f"{WINNER} - runtime settings"}


def test_a_build_that_failed_gives_its_own_reason(measured, scene):
    scene.shop.failures[f"{WINNER} - tidying"] = "SIGKILL"
    rows, _ = measured({})
    assert rows["remove_noops"].reason == "died of SIGKILL"


def test_a_gain_within_the_judgements_noise_floor_is_not_called_faster(measured, scene):
    scene.bench.answer.same_settings.noise_floor = 0.2
    rows, _ = measured({f"{WINNER} - split": 11.5, f"{WINNER} - fuse": 12.5})
    assert rows["split"].verdict == Verdict.CANNOT_TELL
    assert rows["fuse"].verdict == Verdict.FASTER
    assert (rows["split"].noise_floor, rows["fuse"].noise_floor) == (0.2, 0.2)


def test_the_reserve_is_the_shortest_ablation_and_the_package_and_nothing_without_questions(scene):
    found = asked(scene, each_s=1000.0)
    # three sets of winner, leader and four plans without a step, at 2 s; and the package
    assert ablation.reserve_s(found, scene.winner, 2.0) == 3 * 6 * 2.0 + ablation.PACKAGE_S
    assert ablation.reserve_s([], scene.winner, 2.0) == 0.0


def test_a_second_look_is_taken_only_while_a_step_is_not_decided(measured, scene):
    # `split` at 11.5 ms lies within the judgement's floor of 20 %: never decided
    scene.bench.answer.same_settings.noise_floor = 0.2
    rows, sets = measured({f"{WINNER} - split": 11.5})
    assert len(sets.contenders) == 10
    assert rows["split"].pairs == rows["fuse"].pairs == 10
    rows, sets = measured({f"{WINNER} - split": 30.0})
    assert len(sets.contenders) == 5


@pytest.mark.parametrize(("gone_s", "sets_taken"), [(590.0, 10), (610.0, 5)])
def test_no_second_look_is_begun_once_the_run_has_lasted_long(measured, scene, gone_s, sets_taken):
    found = asked(scene, 0.0)
    scene.bench.context.granted_s = -gone_s
    scene.bench.answer.same_settings.noise_floor = 0.2
    _, sets = measured({f"{WINNER} - split": 11.5}, found=found)
    assert len(sets.contenders) == sets_taken


def test_both_looks_together_hold_the_stated_confidence(measured, monkeypatch):
    # five pairs of logs with mean 0.7 and sd 0.1: Student's t at 99.5 % (half of the error) with 4 degrees is 5.5976
    logs = [0.6, 0.65, 0.7, 0.75, 0.8]
    row = ablation.AblationRow(step={"pass": "split"})
    ablation._fill(row, logs, 0.0, 0.995)
    half = 5.5976 * np.std(logs, ddof=1) / np.sqrt(5)
    assert row.interval.low == pytest.approx(np.exp(0.7 - half), rel=1e-4)
    assert row.interval.high == pytest.approx(np.exp(0.7 + half), rel=1e-4)
    assert row.interval.confidence == 0.99
