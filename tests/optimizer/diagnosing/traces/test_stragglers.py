"""Ranks beside each other: who lets the others wait, and whose link is slow."""

from __future__ import annotations

from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.ranking import ranked
from optimizer.diagnosing.traces.stragglers import waits
from tests.optimizer.diagnosing.traces.building import Building
from tests.optimizer.diagnosing.traces.training import BUCKET, NCCL, Training


def rank(number: int, *collectives: tuple[float, float], name: str = NCCL) -> RankTrace:
    job = Building(rank=number, world_size=3)
    for start, duration in collectives:
        job.kernel(name, start, duration, stream=20, **BUCKET)
    return job.read(f"rank{number}.json")


def test_who_arrives_last_lets_the_others_wait() -> None:
    # rank 2 arrives 80 and 30 us after the others; all end together
    rows = waits([
        rank(0, (100, 100), (500, 50)), rank(1, (110, 90), (500, 50)), rank(2, (180, 20), (530, 20)),
    ])  # fmt: skip
    assert [row.rank for row in rows] == [0, 1, 2]
    assert [row.waited_ms for row in rows] == [0.11, 0.1, 0]
    assert [row.last_to_arrive for row in rows] == [0, 0, 2]
    assert rows[2].late_ms == 0.105  # the others waited 80 and 70 us (median 75), then 30 and 30
    assert [row.slow_ms for row in rows] == [0, 0, 0]


def test_who_begins_with_the_others_and_ends_later_is_slow_itself() -> None:
    rows = waits([rank(0, (100, 50)), rank(1, (100, 90))])
    assert [(row.waited_ms, row.late_ms, row.slow_ms) for row in rows] == [(0, 0, 0), (0, 0, 0.04)]


def test_one_rank_or_no_common_collective_says_nothing() -> None:
    assert waits([rank(0, (100, 50))]) == []
    assert waits([rank(0, (100, 50)), rank(1, (100, 50), name="ncclDevKernel_Broadcast")]) == []


def test_of_a_capture_that_began_elsewhere_only_what_ran_together_counts() -> None:
    rows = waits([rank(0, (1000, 50), (3000, 90), (7000, 50)), rank(1, (3060, 30), (9000, 50))])
    assert [(row.collectives, row.waited_ms, row.last_to_arrive) for row in rows] == [(1, 0.06, 0), (1, 0, 1)]


def test_ranks_whose_clocks_differ_are_matched_by_their_order() -> None:
    hour = 3.6e9
    rows = waits([rank(0, (100, 100), (500, 50)), rank(1, (hour, 40), (hour + 400, 50))])
    assert [(row.collectives, row.waited_ms, row.late_ms) for row in rows] == [(2, 0.06, 0), (2, 0, 0.06)]
    assert waits([rank(0, (100, 50), (200, 50)), rank(1, (hour, 50))]) == []  # not as many


def job(number: int, *, late_us: float = 0.0) -> RankTrace:
    """A training of which each step ends with an exposed all-reduce of 100 us, in which a rank waits for the others."""

    def plant(training: Training) -> None:
        training.work("triton_poi_fused_9", late_us or 1.0)
        training.reduced(100 if late_us else 100 + WAITED_US, exposed=True, **{"In msg nelems": 9999})

    return Training(rank=number, seed=7).run(plant).read(f"rank{number}.json")


WAITED_US = 900.0


def test_a_planted_straggler_is_named_and_ranked_first() -> None:
    found = ranked([job(0), job(1), job(2, late_us=WAITED_US)])
    finding = found.findings[0]
    assert (finding.rule, finding.evidence["straggler"]) == ("straggler", "rank 2")
    assert finding.evidence["last_to_arrive"] >= 4
    assert 0.06 < (finding.cost_share or 0) < 0.1  # 900 us of some 11 ms


def test_ranks_in_step_have_no_straggler() -> None:
    rules = {finding.rule for finding in ranked([job(0), job(1), job(2)]).findings}
    assert not rules & {"straggler", "slow_link"}


def test_a_planted_slow_link_is_named() -> None:
    def plant(us: float) -> RankTrace:
        def exposed(training: Training) -> None:
            began = training.now
            training.reduced(us, exposed=True, **{"In msg nelems": 1_000_000})
            training.now = began + 2000

        return Training(rank=int(us), seed=3).run(exposed).read(f"rank{us}.json")

    found = ranked([plant(600), plant(601), plant(1500)])
    (finding,) = [f for f in found.findings if f.rule == "slow_link"]
    assert finding.evidence["trace"] == "rank1500.json"
    assert finding.evidence["bytes"] == 2_000_000
    assert "straggler" not in {f.rule for f in found.findings}


def test_a_finding_of_several_ranks_names_the_one_where_it_costs_most() -> None:
    def waiting(us: float) -> RankTrace:
        return Training(rank=int(us)).run(lambda training: training.gap(us) and None).read(f"rank{us:.0f}.json")

    found = ranked([waiting(2000), waiting(4000), waiting(1)])
    (finding,) = [f for f in found.findings if f.rule == "host_wait"]
    assert (finding.evidence["rank"], finding.evidence["ranks_with_it"]) == (4000, 2)
