"""A round counts as a whole or not at all; what a refused child has seen is never asked again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer.benchmarking import bursts
from optimizer.benchmarking.bursts import Entrant
from optimizer.benchmarking.judge import _refusal_notes
from optimizer.benchmarking.rounds import MAX_SETTLING_BURSTS, run_round, settle
from optimizer.benchmarking.sets import measure_set
from optimizer.errors import FuseworksError
from optimizer.sandbox import Reply
from tests.optimizer.benchmarking.simulated import GrowingChild, SimulatedChild, drawer

SLACK_NS = 10**12  # the simulated calls take no time, so honest ones must pass whatever the machine does
LIE_NS = 10**15


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bursts, "CLOCK_SLACK_NS", SLACK_NS)
    monkeypatch.setattr(bursts, "REFUSAL_PAUSE_S", 0.0)
    monkeypatch.setattr(bursts, "busy", lambda: False)


class Recorder(SimulatedChild):
    """Keeps what each burst was asked, and lies about the bursts whose numbers are in `lies` (from 0)."""

    def __init__(self, lies: frozenset[int] = frozenset()) -> None:
        super().__init__(np.random.default_rng(0), 1.0, 0.0, 0.0)
        self.lies = lies
        self.asked: list[bytes] = []

    def go(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        number = len(self.asked)
        self.asked.append(b"".join(a.tobytes() for a in self.staged[: self.calls]))
        reply = super().go(arrays, fields)
        return Reply(reply.fields, [reply.arrays[0] + LIE_NS]) if number in self.lies else reply


def entrants(*children: tuple[str, Recorder]) -> dict[str, Entrant]:
    for _, child in children:
        child.pause()
    return {name: Entrant(name, child) for name, child in children}  # type: ignore[arg-type]


def rounds(of: dict[str, Entrant], count: int, **options: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(count):
        run_round(of, drawer(rng), 3, rng=rng, **options)


def test_one_refusal_repeats_the_round_with_other_inputs_for_everyone() -> None:
    honest, liar, third = Recorder(), Recorder(lies=frozenset({2})), Recorder()
    of = entrants(("honest", honest), ("liar", liar), ("third", third))
    rounds(of, 6)
    assert {name: len(one.bursts) for name, one in of.items()} == {"honest": 6, "liar": 6, "third": 6}
    assert len(liar.asked) == 7, "the refused burst and six that count"
    spent, repeat = liar.asked[2], liar.asked[3]
    assert spent != repeat
    for other in (honest, third):
        assert other.asked.count(spent) <= 1, "whoever came before the liar answered the spent inputs once"
        counted = [asked for asked in other.asked if asked != spent]
        assert counted == [asked for asked in liar.asked if asked != spent], "accepted bursts are on the same inputs"
    assert of["liar"].refusals == 1 and of["honest"].refusals == 0


def test_nothing_that_was_asked_in_a_refused_attempt_is_asked_again() -> None:
    children = [Recorder(lies=frozenset({0, 1, 4, 7})) for _ in range(3)]
    rounds(entrants(*((f"c{i}", child) for i, child in enumerate(children))), 8)
    for child in children:
        assert len(set(child.asked)) == len(child.asked)


def test_a_child_that_is_refused_too_often_in_one_round_ends_the_round_with_its_name() -> None:
    liar = Recorder(lies=frozenset(range(100)))
    of = entrants(("honest", Recorder()), ("liar", liar))
    with pytest.raises(FuseworksError) as caught:
        rounds(of, 1)
    assert (caught.value.id, caught.value.place) == ("benchmarking:user:clock", "liar")
    assert len(liar.asked) == bursts.MAX_REFUSALS
    assert of["honest"].bursts == [] and of["liar"].bursts == []


def test_refusals_of_one_round_do_not_count_in_the_next() -> None:
    every_other = frozenset({0, 1, 2, 3, 5, 6, 7, 8})  # four refusals, then one burst that counts; twice
    of = entrants(("slow", Recorder(lies=every_other)))
    rounds(of, 2)
    assert len(of["slow"].bursts) == 2 and of["slow"].refusals == 8


def test_on_a_busy_machine_it_goes_on_longer_and_the_machine_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bursts, "busy", lambda: True)
    monkeypatch.setattr(bursts, "MAX_REFUSALS_BUSY", 8)
    late = Recorder(lies=frozenset(range(7)))
    of = entrants(("late", late))
    rounds(of, 1)
    assert len(of["late"].bursts) == 1
    with pytest.raises(FuseworksError) as caught:
        rounds(entrants(("liar", Recorder(lies=frozenset(range(100))))), 1)
    assert caught.value.id == "benchmarking:ours:busy"


def test_all_are_stopped_while_the_machine_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    children = [Recorder(), Recorder(lies=frozenset(range(100)))]
    seen: list[list[bool]] = []
    monkeypatch.setattr(bursts, "busy", lambda: seen.append([c.running for c in children]) or False)
    with pytest.raises(FuseworksError):
        rounds(entrants(("honest", children[0]), ("liar", children[1])), 1)
    assert seen == [[False, False]]


def test_who_is_taken_out_is_missing_and_the_others_have_the_round() -> None:
    liar = Recorder(lies=frozenset(range(100)))
    of = entrants(("honest", Recorder()), ("liar", liar), ("third", Recorder()))
    rounds(of, 2, on_failure=lambda name, error: of.pop(name))
    assert {name: len(one.bursts) for name, one in of.items()} == {"honest": 2, "third": 2}


def test_a_set_drops_the_liar_and_keeps_equal_numbers_of_bursts() -> None:
    starts: Any = {
        "baseline": Recorder,
        "winner": lambda: Recorder(lies=frozenset({1, 3})),
        "best_peer": lambda: Recorder(lies=frozenset(range(100))),
    }
    rng = np.random.default_rng(2)
    one = measure_set(starts, drawer(rng), baseline="baseline", rng=rng, rounds=4)
    assert one.failed["best_peer"].id == "benchmarking:user:clock"
    assert {name: len(e.bursts) for name, e in one.entrants.items()} == {"baseline": 4, "winner": 4}
    baseline, winner = (one.entrants[name].child.asked for name in ("baseline", "winner"))  # type: ignore[attr-defined]
    assert baseline[-1] == winner[-1]
    (note,) = _refusal_notes([one])
    assert note == "2 bursts of winner did not add up: their rounds were repeated with fresh inputs"


def settling_bursts(faults: list[int]) -> int:
    """How many bursts such a process takes to settle. None of them may be kept."""
    child, rng = GrowingChild(faults), np.random.default_rng(3)
    (one,) = entrants(("growing", child)).values()  # type: ignore[arg-type]
    settle(one, drawer(rng), calls=4, rng=rng)
    assert child.lengths == [4] * len(child.lengths)
    assert one.bursts == []
    return len(child.lengths)


def test_a_process_is_settled_when_two_bursts_in_a_row_fault_as_those_before_them() -> None:
    assert settling_bursts([0]) == 2
    assert settling_bursts([4, 0, 2, 0, 0, 0]) == 5
    assert settling_bursts([50, 20, 10, 4, 0]) == 6
    # malloc gives back and takes anew what every call needs: nothing to wait for
    assert settling_bursts([5]) == 3
    assert settling_bursts([100, 90, 99, 95]) == 3


def test_a_process_that_never_settles_is_measured_as_it_is() -> None:
    assert settling_bursts([2**n for n in range(20)]) == MAX_SETTLING_BURSTS


def test_the_first_bursts_of_a_process_that_grows_its_heap_do_not_count_in_a_set() -> None:
    starts: Any = {
        "baseline": lambda: GrowingChild([900, 90, 9, 0]),
        "winner": lambda: GrowingChild([0], speedup=2.0),
    }
    rng = np.random.default_rng(4)
    one = measure_set(starts, drawer(rng), baseline="baseline", rng=rng, rounds=4)
    assert one.log_speedup("baseline", "winner") == pytest.approx(np.log(2), rel=1e-3)
    assert [burst.page_faults for burst in one.entrants["baseline"].bursts] == [0] * 4
