"""Whether the machine is busy is read off this moment, from texts as Linux gives them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from optimizer.benchmarking import load


def reads(*counts: int) -> Callable[[], str]:
    """Texts of /proc/loadavg with so many running tasks; the averages say what we built a minute ago."""
    left = iter(counts)
    return lambda: f"9.45 8.83 4.97 {next(left)}/117 7476\n"


def test_the_reader_itself_does_not_count() -> None:
    assert load.runnable("0.20 0.18 0.12 1/80 11206\n") == 1
    assert load.others_running(reads(1, 1, 1), samples=3, apart_s=0) == 0.0
    assert load.others_running(reads(3, 2, 1, 2), samples=4, apart_s=0) == 1.0


def test_a_load_of_a_minute_ago_is_not_now() -> None:
    others = load.others_running(reads(1, 1), samples=2, apart_s=0)
    assert not load.crowded(others, usable=2, present=2)


@pytest.mark.parametrize(
    ("others", "usable", "present", "crowded"),
    [
        (0.4, 2, 2, False),
        (1.0, 2, 2, True),
        (16.0, 64, 64, False),
        (17.0, 64, 64, True),
        (6.0, 2, 8, False),  # others have the six cores that are not ours
        (7.0, 2, 8, True),
    ],
)
def test_others_crowd_us_once_they_take_more_than_a_quarter_of_our_cores(
    others: float, usable: int, present: int, crowded: bool
) -> None:
    assert load.crowded(others, usable, present) is crowded


@pytest.mark.parametrize("text", ["", "0.1 0.2", "0.1 0.2 0.3 many/80 1"])
def test_where_the_kernel_says_something_else_nothing_is_said_to_be_busy(text: str) -> None:
    assert load.others_running(lambda: text, samples=2, apart_s=0) == 0.0


def test_a_kernel_without_the_file_is_never_busy() -> None:
    def missing() -> str:
        raise FileNotFoundError("/proc/loadavg")

    assert load.others_running(missing, samples=2, apart_s=0) == 0.0


@pytest.mark.skipif(not os.path.exists("/proc/loadavg"), reason="not on this system")
def test_work_that_really_runs_is_seen_and_gone_when_it_is_stopped() -> None:
    spin = "import sys; print('up', flush=True)\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) for _ in range(load.cores() + 1)]
    try:
        for one in others:
            assert one.stdout is not None and one.stdout.readline() == b"up\n"
        assert load.others_running() >= load.cores()
        assert load.busy()
    finally:
        for one in others:
            one.kill()
            one.communicate()
