"""In which order waiting runs are sent, worked out by hand. Runs are named by their unit, team and age: `A1:3`."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fuseworks.fleet.fair_share import Load, Waiting, fair_order

BEGAN = datetime(2026, 5, 4, tzinfo=UTC)
SPACE = uuid.UUID("00000000-0000-0000-0000-000000000000")
NOBODY = Load(units={}, teams={})


def identity(name: str) -> uuid.UUID:
    return uuid.uuid5(SPACE, name)


def waiting(name: str, inspects: bool = False) -> Waiting:
    """`A1:3` is of unit A's team A1 and came three seconds after the beginning."""
    team, _, age = name.partition(":")
    at = BEGAN + timedelta(seconds=int(age))
    return Waiting(identity(name), identity(team), identity(team[0]), inspects, at)


def busy(**teams: int) -> Load:
    units: Counter[uuid.UUID] = Counter()
    for team, count in teams.items():
        units[identity(team[0])] += count
    return Load(units=units, teams={identity(team): count for team, count in teams.items()})


def order(names: list[str], load: Load = NOBODY, inspecting: tuple[str, ...] = ()) -> list[str]:
    known = {identity(name): name for name in names}
    runs = [waiting(name, name in inspecting) for name in names]
    return [known[run.run_id] for run in fair_order(runs, load)]


def test_nothing_waits() -> None:
    assert order([]) == []


def test_within_a_team_the_oldest_is_first() -> None:
    assert order(["A1:2", "A1:1", "A1:3"]) == ["A1:1", "A1:2", "A1:3"]


def test_a_unit_with_many_and_one_with_few_take_turns() -> None:
    assert order(["A1:1", "A1:2", "A1:3", "A1:4", "B1:5", "B1:6"]) == ["A1:1", "B1:5", "A1:2", "B1:6", "A1:3", "A1:4"]


def test_the_unit_with_the_fewest_at_work_is_first_whoever_waited_longer() -> None:
    # A has two at work: B's two come first, then both are equal and the older one leads
    assert order(["A1:1", "A1:2", "B1:3", "B1:4", "B1:5"], busy(A1=2)) == ["B1:3", "B1:4", "A1:1", "B1:5", "A1:2"]


def test_within_a_unit_its_teams_take_turns_and_the_one_with_the_fewest_leads() -> None:
    assert order(["A1:1", "A1:2", "A2:3", "A2:4"]) == ["A1:1", "A2:3", "A1:2", "A2:4"]
    assert order(["A1:1", "A1:2", "A2:3", "A2:4"], busy(A1=1)) == ["A2:3", "A1:1", "A2:4", "A1:2"]


def test_more_teams_do_not_give_a_unit_more_turns() -> None:
    # unit A: three teams; unit B: one. A1 and B1 are equal at first; then it is B's turn, then A's next team, ...
    names = ["A1:1", "A2:2", "A3:3", "B1:4", "B1:5", "B1:6"]
    assert order(names) == ["A1:1", "B1:4", "A2:2", "B1:5", "A3:3", "B1:6"]


def test_inspections_are_first_and_count_for_their_unit() -> None:
    names = ["A1:1", "B1:2", "A1:3", "B1:4"]
    assert order(names, inspecting=("A1:3",)) == ["A1:3", "B1:2", "A1:1", "B1:4"]


def test_inspections_take_turns_among_themselves() -> None:
    names = ["A1:1", "A1:2", "B1:3"]
    assert order(names, inspecting=("A1:1", "A1:2", "B1:3")) == ["A1:1", "B1:3", "A1:2"]


def test_two_of_one_moment_have_a_certain_order() -> None:
    runs = [waiting("A1:1"), waiting("B1:1"), waiting("C1:1")]
    ids = [run.run_id for run in fair_order(runs, NOBODY)]
    assert ids == [run.run_id for run in fair_order(runs[::-1], NOBODY)] == sorted(ids)


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from("12"), st.integers(0, 50), st.booleans()), max_size=25),
    st.dictionaries(st.sampled_from(["A1", "A2", "B1", "C2"]), st.integers(0, 4)),
)
def test_each_turn_is_the_one_that_a_plain_search_would_choose(
    rows: list[tuple[str, str, int, bool]], at_work: dict[str, int]
) -> None:
    runs = [
        Waiting(identity(f"{n}"), identity(unit + team), identity(unit), inspects, BEGAN + timedelta(seconds=age))
        for n, (unit, team, age, inspects) in enumerate(rows)
    ]
    load = busy(**at_work)
    units, teams, left = Counter(load.units), Counter(load.teams), list(runs)
    for run in fair_order(runs, load):
        first = min(left, key=lambda r: (not r.inspects, units[r.unit_id], teams[r.team_id], r.created_at, r.run_id))
        assert run == first
        left.remove(run)
        units[run.unit_id] += 1
        teams[run.team_id] += 1
    assert not left
