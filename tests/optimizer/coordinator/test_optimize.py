"""The search's own decisions, without children: what is built for whom, and what time is kept for what comes after."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from optimizer.coordinator import ablation, deliver, judging, optimize, settings_search, winner_profile
from optimizer.coordinator.answer import Answer
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import Facts, Planner
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Rewrite, Site
from optimizer.spec import BackendStep, Policy, RuntimeSettings
from tests.optimizer.coordinator.support import context

LEADER = "aot_inductor + rewrites"


def planner(*passes):
    sites = [Site(node="n", reason="done")]
    rewrites = [Rewrite(pass_=name, applied=sites, nodes_before=9, nodes_after=8, seconds=0.1) for name in passes]
    return Planner(Facts("pt2", "eager", {"aot_inductor": None}, RuntimeSettings(), Policy(), None), rewrites)


class Builds:
    """Two workers that build everything but what is in `cut` before any deadline."""

    workers = 2

    def __init__(self, cut=()):
        self.cut, self.asked, self.deadline = cut, [], 0.0

    def submit(self, candidates):
        self.asked += [c.name for c in candidates]

    def wait(self, candidates, deadline):
        self.deadline = deadline

    def ended(self, candidate):
        return candidate.name not in self.cut

    def is_built(self, candidate):
        return candidate.name in self.asked and candidate.name not in self.cut

    def why_not(self, candidate):
        return None


def scene(tmp_path, plan, builds, **policy):
    answer = Answer()
    for candidate, speedup in ((plan.first_rewritten()[0], 3.0), (plan.peers()[0], 2.0)):
        answer.file(Evaluation(candidate=candidate, status=EvaluationStatus.PASSED, screened_speedup=speedup))
    return SimpleNamespace(context=context(tmp_path, budget_s=1000, **policy), answer=answer, shop=builds)


@pytest.mark.parametrize(
    ("left_s", "keep", "tried"),
    [(460, 0.0, True), (440, 0.0, False), (560, 0.1, True), (540, 0.1, False)],
)
def test_a_round_ends_when_only_the_time_of_what_comes_after_is_left(tmp_path, left_s, keep, tried):
    plan, evaluated = planner("split"), []
    bench = scene(tmp_path, plan, Builds())
    bench.context.granted_s = left_s - 1000.0
    other = Candidate(name="other", steps=plan.peers()[0].steps)
    optimize._round(bench, Builds(), SimpleNamespace(evaluate=evaluated.append), [other], keep=keep)
    assert evaluated == ([other] if tried else [])
    if not tried:
        reason = bench.answer.evaluations["other"].reason
        assert reason == "the rest of the time budget is kept for judging the leader"


def test_a_candidate_that_was_not_built_in_time_is_not_tried(tmp_path):
    plan = planner("split")
    bench = scene(tmp_path, plan, Builds())
    other = Candidate(name="other", steps=plan.peers()[0].steps)
    optimize._round(bench, Builds(cut=["other"]), None, [other])
    assert bench.answer.evaluations["other"].reason == "the time budget was over before it was built"


@pytest.mark.parametrize(
    ("passes", "ablation_asked", "without"),
    [
        (["split", "merge", "remove_noops"], True, ["split", "merge"]),
        # the third build leaves one of two workers idle: the graph without the tidying is built beside it
        (["split", "merge", "fuse", "remove_noops"], True, ["split", "merge", "fuse", "tidying"]),
        (["split", "merge", "fuse", "remove_noops"], False, ["split", "merge", "fuse"]),
        (["split", "merge", "fuse"], True, ["split", "merge", "fuse"]),
        (["split", "remove_noops"], True, []),
        (["remove_noops"], True, []),
    ],
)
def test_the_leader_is_built_without_each_rewrite_and_without_the_tidying_only_beside_others(
    tmp_path, passes, ablation_asked, without
):
    builds, plan = Builds(), planner(*passes)
    bench = scene(tmp_path, plan, builds, ablation=ablation_asked)
    found = optimize._leave_one_out(bench, plan, builds)
    assert builds.asked == [f"{LEADER} - {name}" for name in without]
    assert [one.without.name for one in found] == builds.asked


def test_a_variant_that_was_not_built_in_time_is_named_and_the_others_stay(tmp_path):
    plan = planner("split", "merge")
    builds = Builds(cut=[f"{LEADER} - merge"])
    bench = scene(tmp_path, plan, builds)
    assert [one.without.name for one in optimize._leave_one_out(bench, plan, builds)] == [f"{LEADER} - split"]
    cut = bench.answer.evaluations[f"{LEADER} - merge"]
    assert (cut.status, cut.reason) == (EvaluationStatus.NOT_TRIED, "the time budget was over before it was built")


@pytest.mark.parametrize(("ablation_asked", "kept_s"), [(True, 450), (False, 300)])
def test_the_variants_leave_time_for_the_judgement_and_for_the_ablation_where_there_is_one(
    tmp_path, ablation_asked, kept_s
):
    builds, plan = Builds(), planner("split", "merge")
    optimize._leave_one_out(scene(tmp_path, plan, builds, ablation=ablation_asked), plan, builds)
    assert builds.deadline - time.monotonic() == pytest.approx(1000 - kept_s, abs=5)


def test_the_tidying_is_no_finalist(tmp_path, monkeypatch):
    builds, plan = Builds(), planner("split", "merge", "fuse", "remove_noops")
    bench = scene(tmp_path, plan, builds)
    left_out = optimize._leave_one_out(bench, plan, builds)
    screened = []

    def final_screening(bench, candidates, settings):
        screened.extend(c.name for c in candidates)
        speedups = dict.fromkeys(screened, 2.5) | {f"{LEADER} - fuse": 3.5, "aot_inductor": 1.75}
        return judging.FinalScreening(speedups, {}, 2.0)

    monkeypatch.setattr(judging, "final_screening", final_screening)
    finals = optimize._finals(bench, left_out, RuntimeSettings())
    assert screened == [LEADER, *(f"{LEADER} - {name}" for name in ("split", "merge", "fuse")), "aot_inductor"]
    assert finals.ranked[0].name == f"{LEADER} - fuse"
    assert [peer.name for peer in finals.peers] == ["aot_inductor"]
    assert bench.answer.evaluations[LEADER].screened_speedup == 2.5, "the interleaved screening is the better one"


@pytest.mark.parametrize(("with_variants", "finalists"), [(True, [LEADER, "split", "merge"]), (False, [])])
def test_a_leader_that_a_peer_outran_in_the_first_screening_comes_with_its_variants(
    tmp_path, monkeypatch, with_variants, finalists
):
    builds, plan = Builds(), planner("split", "merge")
    bench = scene(tmp_path, plan, builds)
    optimize._file_screened(bench.answer, plan.peers()[0], 4.0)
    left_out = optimize._leave_one_out(bench, plan, builds) if with_variants else []
    screened = []

    def final_screening(bench, candidates, settings):
        screened.extend(c.name for c in candidates)
        return judging.FinalScreening(dict.fromkeys(screened, 1.0), {}, 2.0)

    monkeypatch.setattr(judging, "final_screening", final_screening)
    optimize._finals(bench, left_out, RuntimeSettings())
    assert [name.removeprefix(f"{LEADER} - ") for name in screened] == [*finalists, "aot_inductor"]


# ---- judging -------------------------------------------------------------------------------------------------------


class Judging:
    """Takes the place of questions, judgement, delivery, ablation and profile; keeps what they were told."""

    def __init__(self, monkeypatch, bench, winner, *, offered=None, judged=None, ablated=None):
        self.bench, self.winner, self.told = bench, winner, []
        self.offered, self.judged_error, self.ablated_error = offered or winner, judged, ablated
        self.asked = planner("split", "merge").leave_one_out(winner)
        monkeypatch.setattr(ablation, "questions", lambda *_: self.asked)
        monkeypatch.setattr(settings_search, "tune", lambda *given, **_: settings_search.Tuned(*given[3:], []))
        monkeypatch.setattr(deliver, "judged", self.judge)
        monkeypatch.setattr(deliver, "deliver", lambda bench, judgement: self.told.append("delivered"))
        monkeypatch.setattr(ablation, "ablate", self.ablate)
        monkeypatch.setattr(winner_profile, "reserve_s", lambda bench, winner: 20.0)
        monkeypatch.setattr(winner_profile, "profile_winner", self.profile)

    def judge(self, bench, winner, peer, *, deadline, beside, rounds):
        self.told.append("judged")
        self.rounds = rounds
        self.peer, self.beside = peer, beside
        self.judging_left_s = deadline - time.monotonic()
        if self.judged_error:
            raise self.judged_error
        return SimpleNamespace(winner=self.offered)

    def profile(self, bench, winner):
        self.told.append(f"profiled {winner.name}")

    def ablate(self, bench, winner, asked, *, contender_s, deadline, spare_s):
        self.told.append("ablated")
        self.spare_s = spare_s
        self.ablation_left_s = deadline - time.monotonic()
        if self.ablated_error:
            raise self.ablated_error
        return ["a row"]

    def __call__(self):
        finals = optimize.Finals([self.winner], [], [], judging.FinalScreening({}, {}, 10.0))
        return optimize._judged_and_delivered(self.bench, None, None, self.winner, finals)


@pytest.fixture
def bench(tmp_path):
    return scene(tmp_path, planner("split", "merge"), Builds())


@pytest.fixture
def winner():
    return planner("split", "merge").first_rewritten()[0]


def test_the_judgement_ends_early_enough_for_every_step_to_be_measured_and_for_the_profile(monkeypatch, bench, winner):
    told = Judging(monkeypatch, bench, winner)
    assert told() is True
    assert told.told == ["judged", "delivered", "ablated", f"profiled {LEADER}"], "nothing is measured after a profile"
    # three sets of winner and two plans without a step at 10 s are 90 s, 12 s for the package, and the profile's 20 s
    assert told.judging_left_s == pytest.approx(1000 - 122, abs=5)
    # which steps are measured does not depend on the profile; only the sets beyond the fewest leave it its time
    assert told.ablation_left_s == pytest.approx(1000, abs=5)
    assert told.spare_s == 20.0
    assert bench.answer.ablation == ["a row"]


def test_without_questions_the_judgement_has_all_the_time_but_the_profiles(monkeypatch, bench, winner):
    told = Judging(monkeypatch, bench, winner)
    told.asked = []
    assert told() is True
    assert told.judging_left_s == pytest.approx(1000 - 20, abs=5)
    assert told.told == ["judged", "delivered", f"profiled {LEADER}"]


def test_a_peer_that_is_offered_instead_has_no_steps_to_measure(monkeypatch, bench, winner):
    told = Judging(monkeypatch, bench, winner, offered=Candidate(name="openvino", steps=winner.steps[-1:]))
    assert told() is True
    assert told.told == ["judged", "delivered", "profiled openvino"]


def test_a_winner_that_fails_while_it_is_judged_is_filed_and_the_next_gets_its_chance(monkeypatch, bench, winner):
    told = Judging(monkeypatch, bench, winner, judged=FuseworksError("child:user:crashed", signal="SIGSEGV"))
    assert told() is False
    assert bench.answer.evaluations[LEADER].status == EvaluationStatus.CRASHED
    assert told.told == ["judged"]


def test_a_peer_that_fails_while_it_is_judged_as_the_winner_is_not_judged_again_as_the_next_ones_best_peer(
    monkeypatch, bench, winner
):
    engine, other = (Candidate(name=n, steps=[BackendStep(backend=n)], peer=True) for n in ("openvino", "onnxruntime"))
    finals = optimize.Finals([engine, winner], [engine, other], [], judging.FinalScreening({}, {}, 10.0))
    told = Judging(monkeypatch, bench, engine, judged=FuseworksError("child:user:crashed", signal="SIGSEGV"))
    assert optimize._judged_and_delivered(bench, None, None, engine, finals) is False
    told.judged_error = None
    assert optimize._judged_and_delivered(bench, None, None, winner, finals) is True
    assert told.peer == other


@pytest.mark.parametrize(("asked_for", "beside"), [("best", []), ("all", ["onnxruntime"])])
def test_all_peers_are_judged_where_the_policy_asks_for_them(monkeypatch, tmp_path, winner, asked_for, beside):
    bench = scene(tmp_path, planner("split", "merge"), Builds(), rivals=asked_for)
    engine, other = (Candidate(name=n, steps=[BackendStep(backend=n)], peer=True) for n in ("openvino", "onnxruntime"))
    for one in (engine, other):
        bench.answer.file(Evaluation(candidate=one, status=EvaluationStatus.PASSED))
    bench.answer.evaluations.pop("aot_inductor")
    told = Judging(monkeypatch, bench, winner)
    finals = optimize.Finals([winner], [engine], [], judging.FinalScreening({}, {}, 10.0))
    assert optimize._judged_and_delivered(bench, None, None, winner, finals) is True
    assert told.peer == engine
    assert [one.name for one in told.beside] == beside


def test_a_winner_that_was_clear_among_the_finalists_is_judged_in_fewer_rounds(monkeypatch, bench, winner):
    told = Judging(monkeypatch, bench, winner)
    clear = judging.FinalScreening({winner.name: 2.0}, {}, 10.0)
    assert optimize._judged_and_delivered(bench, None, None, winner, optimize.Finals([winner], [], [], clear)) is True
    assert told.rounds == judging.CLEAR_ROUNDS
    told()
    assert told.rounds == judging.ROUNDS


def test_a_judgement_of_all_peers_keeps_more_of_the_budget(tmp_path):
    shares = [optimize._reserve(context(tmp_path, rivals=rivals, ablation=False)) for rivals in ("best", "all")]
    assert shares == pytest.approx([0.3, 0.45])


def test_a_busy_machine_is_not_the_winners_fault(monkeypatch, bench, winner):
    busy = FuseworksError("benchmarking:ours:busy", name="winner", refusals=60, load=9.0, cores=2)
    with pytest.raises(FuseworksError) as raised:
        Judging(monkeypatch, bench, winner, judged=busy)()
    assert raised.value is busy
    assert bench.answer.evaluations[LEADER].status == EvaluationStatus.PASSED


def test_an_ablation_that_ends_in_an_error_costs_only_itself(monkeypatch, bench, winner):
    told = Judging(monkeypatch, bench, winner, ablated=FuseworksError("child:user:crashed", signal="SIGSEGV"))
    assert told() is True
    (note,) = bench.answer.notes
    assert note.startswith("The steps could not be measured one by one: The process")
    assert bench.answer.ablation == []
    assert told.told[-1] == f"profiled {LEADER}"


# ---- the best peer -------------------------------------------------------------------------------------------------


def in_bfloat16(tmp_path):
    facts = Facts("pt2", "eager", {"aot_inductor": None, "openvino": None}, RuntimeSettings(), Policy(), None)
    return Planner(replace(facts, policy=Policy(precisions=["float32", "bfloat16"])), planner("split").rewrites)


def test_the_best_peer_is_the_best_in_the_winners_precision(tmp_path, monkeypatch):
    plan = in_bfloat16(tmp_path)
    bench = SimpleNamespace(context=context(tmp_path), answer=Answer())
    low = {c.name: c for c in plan.low_precision()}
    full = {c.name: c for c in plan.peers()}
    speeds = {
        "openvino + bfloat16 + rewrites": 4.0,
        "openvino + bfloat16": 3.5,
        "aot_inductor + bfloat16": 3.0,
        "aot_inductor": 2.0,
        "openvino": 1.5,
    }
    for name, speedup in speeds.items():
        candidate = {**low, **full}[name]
        passed = EvaluationStatus.PASSED
        bench.answer.file(Evaluation(candidate=candidate, status=passed, screened_speedup=speedup))
    monkeypatch.setattr(judging, "final_screening", lambda *_: judging.FinalScreening(speeds, {}, 1.0))
    finals = optimize._finals(bench, [], RuntimeSettings())
    assert [peer.name for peer in finals.peers] == list(speeds)[1:]
    assert finals.peer_of(low["openvino + bfloat16 + rewrites"]).name == "openvino + bfloat16"
    assert finals.peer_of(full["openvino"]).name == "aot_inductor"


def test_where_no_engine_passed_in_the_winners_precision_the_best_of_all_is_the_peer(tmp_path):
    plan = in_bfloat16(tmp_path)
    peers = plan.peers()
    finals = optimize.Finals([], peers, [], judging.FinalScreening({}, {}, 1.0))
    assert finals.peer_of(plan.low_precision()[0]) is peers[0]
    assert optimize.Finals([], [], [], finals.screening).peer_of(peers[0]) is None


def test_an_engine_alone_in_bfloat16_is_not_taken_for_the_rewritten_leader(tmp_path):
    plan, builds = in_bfloat16(tmp_path), Builds()
    bench = SimpleNamespace(context=context(tmp_path), answer=Answer(), shop=builds)
    alone = next(c for c in plan.low_precision() if c.peer)
    bench.answer.file(Evaluation(candidate=alone, status=EvaluationStatus.PASSED, screened_speedup=9.0))
    assert optimize._leave_one_out(bench, plan, builds) == []
    assert builds.asked == []
