"""Payloads that take without end: each is ended for the right reason, nothing is left, and the next child works."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from optimizer.sandbox.launch import Mode
from optimizer.sandbox.spec import Limits
from tests.hostile.support import MIB, ROOMY, alive, failure, next_child_works, payload_child, processes_of, wait_until

TIGHT = Limits(memory_bytes=300 * MIB, scratch_bytes=100 * MIB, log_bytes=MIB)


def test_an_endless_loop_ends_at_its_deadline(mode: Mode) -> None:
    with payload_child(mode) as child:
        pids = processes_of(child)
        started = time.monotonic()
        error = failure(child, "loop", timeout_s=1.0)
        assert time.monotonic() - started < 10
    assert error.id == "child:user:timed-out"
    assert "1 s" in error.message
    assert "while it was payload" in error.message
    assert wait_until(lambda: not alive(pids))
    next_child_works(mode)


def test_a_failed_child_says_the_same_when_it_is_called_again(mode: Mode) -> None:
    with payload_child(mode) as child:
        assert failure(child, "leave", code=3).id == failure(child, "hello").id == "child:user:crashed"


@pytest.mark.parametrize(("op", "fields"), [("eat_in_one", {}), ("eat_in_many", {"mib_each": 60}), ("eat_shared", {})])
def test_eating_memory_ends_as_out_of_memory(mode: Mode, op: str, fields: dict[str, int]) -> None:
    with payload_child(mode, TIGHT) as child:
        error = failure(child, op, **fields)
    assert error.id == "child:user:out-of-memory"
    assert "300 MiB" in error.message


def test_eating_memory_through_the_scratch_is_bounded_too(mode: Mode) -> None:
    """Where the scratch is a tmpfs its pages are memory; on a disk they are scratch."""
    roomy_scratch = replace(TIGHT, scratch_bytes=4 << 30, memory_bytes=200 * MIB)
    with payload_child(mode, roomy_scratch if mode == "bubblewrap" else TIGHT) as child:
        error = failure(child, "eat_tmpfs")
    assert error.id == ("child:user:out-of-memory" if mode == "bubblewrap" else "child:user:disk-full")


def test_memory_that_no_process_maps_cannot_be_had(mode: Mode) -> None:
    with payload_child(mode) as child:
        found = child.call("payload.eat_unseen", timeout_s=60).fields["found"]
    assert set(found.values()) <= {"EPERM", "ENOSYS"}


def test_a_fork_bomb_stays_within_its_count_and_dies(mode: Mode) -> None:
    with payload_child(mode, replace(ROOMY, processes=60)) as child:
        error = failure(child, "fork_bomb", timeout_s=2.0)
        pids = processes_of(child)
    assert error.id in ("child:user:timed-out", "child:user:bad-answer")
    assert wait_until(lambda: not alive(pids))
    next_child_works(mode)


def test_the_count_of_processes_is_bounded(mode: Mode) -> None:
    with payload_child(mode, replace(ROOMY, processes=40)) as child:
        assert 10 <= child.call("payload.count_forks", timeout_s=60).fields["count"] < 40


@pytest.mark.parametrize("op", ["fill_disk", "fill_disk_unseen"])
def test_filling_the_disk_ends_as_disk_full(mode: Mode, op: str) -> None:
    with payload_child(mode, replace(TIGHT, memory_bytes=2 << 30)) as child:
        error = failure(child, op)
    assert error.id == "child:user:disk-full"
    assert "100 MiB" in error.message
    next_child_works(mode)


def test_one_file_beyond_the_limit_of_a_file_ends_as_disk_full(mode: Mode) -> None:
    with payload_child(mode, replace(ROOMY, file_bytes=8 * MIB)) as child:
        assert failure(child, "one_big_file").id == "child:user:disk-full"


def test_files_without_number_end_as_disk_full(mode: Mode) -> None:
    with payload_child(mode, replace(ROOMY, scratch_files=2000)) as child:
        assert failure(child, "many_inodes").id == "child:user:disk-full"


def test_a_flood_of_output_ends_the_child(mode: Mode) -> None:
    with payload_child(mode, TIGHT) as child:
        error = failure(child, "flood")
        assert error.id == "child:user:too-much-output"
        assert len(child.log_tail(1 << 30)) == MIB
    next_child_works(mode)


def test_what_is_printed_goes_to_the_log_and_is_bounded_there(mode: Mode) -> None:
    with payload_child(mode) as child:
        child.call("payload.say", timeout_s=60, text="hello from inside")
        assert wait_until(lambda: "hello from inside" in child.log_tail())


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGBUS])
def test_a_crash_is_called_by_its_signal(any_mode: Mode, number: signal.Signals) -> None:
    with payload_child(any_mode) as child:
        error = failure(child, "die", signal=int(number))
    assert error.id == "child:user:crashed"
    assert number.name in error.message


def test_a_crash_keeps_its_signal_in_each_confinement(mode: Mode) -> None:
    with payload_child(mode) as child:
        assert "SIGSEGV" in failure(child, "die", signal=11).message


def test_no_scratch_is_left_whatever_lies_in_it(mode: Mode) -> None:
    with payload_child(mode) as child:
        child.call("payload.awkward_leftovers", timeout_s=60)
        folder = child._launched.folder
        assert folder.exists()
    assert not folder.exists()


def test_the_scratch_is_the_working_folder_the_home_and_for_temporary_files(mode: Mode) -> None:
    with payload_child(mode) as child:
        fields = child.call("payload.where", timeout_s=60).fields
    environment = fields["environment"]
    scratch = environment["FUSEWORKS_SCRATCH"]
    assert fields["cwd"] == fields["home"] == environment["HOME"] == environment["TMPDIR"] == scratch
    assert Path(scratch).is_absolute()
    assert set(environment) <= {"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "LANG", "FUSEWORKS_SCRATCH", "LC_CTYPE"}
