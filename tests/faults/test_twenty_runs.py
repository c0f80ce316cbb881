"""Two workers on one database finish twenty queued runs exactly once each, while one of them is killed repeatedly."""

from __future__ import annotations

import itertools
import random
import threading

import pytest

from tests.faults.conftest import own_folder
from tests.faults.processes import Running
from tests.faults.stack import Stack

RUNS = 20


class Killer:
    """Kills one of the workers by `kill -9` every so often, the other one next time, and starts it again at once."""

    def __init__(self, stack: Stack, names: tuple[str, ...], every_s: float) -> None:
        self.stack, self.every_s, self.kills = stack, every_s, 0
        self.workers: dict[str, Running] = {name: stack.worker(name) for name in names}
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        chance = random.Random(7)
        try:
            for name in itertools.cycle(self.workers):
                if self._done.wait(self.every_s * chance.uniform(0.8, 1.2)):
                    return
                self.workers[name].kill()
                self.kills += 1
                self.workers[name] = self.stack.worker(name)
        except BaseException as error:
            self._error = error

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


def all_end_once(stack: Stack, version: str, *, every_s: float, seconds: float) -> Killer:
    runs = [stack.create(version) for _ in range(RUNS)]
    with Killer(stack, ("left", "right"), every_s) as killer:
        stack.wait_for_end(runs, seconds)
    for run in runs:
        stack.assert_ended_once(run)
    claimed = [stack.claimed(run) for run in runs]
    assert {attempt["worker"] for attempts in claimed for attempt in attempts} == {"left", "right"}
    expired = sum(attempt["state"] == "expired" for attempts in claimed for attempt in attempts)
    assert expired > 0, "no kill ever met a run"
    assert sum(len(attempts) for attempts in claimed) == RUNS + expired
    return killer


def test_twenty_runs_end_once_each_while_a_worker_is_killed_every_few_seconds(stack: Stack) -> None:
    killer = all_end_once(stack, "second", every_s=3.0, seconds=240)
    assert killer.kills >= 3


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_twenty_runs_end_once_each_while_a_worker_is_killed_every_minute() -> None:
    """With the lease and the time to claim of production: runs of half a minute."""
    with own_folder() as folder:
        stack = Stack(folder, lease_s=60, claim_within_s=120)
        try:
            stack.start()
            killer = all_end_once(stack, "half a minute", every_s=60.0, seconds=2000)
            assert killer.kills >= 3
        finally:
            stack.stop()
