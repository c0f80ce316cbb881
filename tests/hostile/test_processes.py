"""Payloads that attack processes, or outlive their own: nobody outside notices, and none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optimizer.sandbox import landlock
from optimizer.sandbox.launch import Mode
from tests.hostile.support import (
    AS_ANOTHER,
    alive,
    failure,
    next_child_works,
    not_denied,
    payload_child,
    processes_of,
    usable,
    victim,
    wait_until,
)

ROOT = Path(__file__).resolve().parents[2]


def test_signals_limits_and_priorities_do_not_reach_outside(mode: Mode) -> None:
    received = []
    before = signal.signal(signal.SIGURG, lambda *_: received.append(1))
    try:
        with victim() as attacked, payload_child(mode) as child:
            cores, priority = os.sched_getaffinity(attacked.pid), os.getpriority(os.PRIO_PROCESS, attacked.pid)
            found = child.call("payload.signal_everybody", timeout_s=60, pid=attacked.pid).fields["found"]
            time.sleep(0.2)
            assert not not_denied(found, but=("group", "all"))
            assert attacked.poll() is None
            assert os.sched_getaffinity(attacked.pid) == cores
            assert os.getpriority(os.PRIO_PROCESS, attacked.pid) == priority
            assert child.call("payload.hello", timeout_s=60).fields["pid"]
        assert received == []
    finally:
        signal.signal(signal.SIGURG, before)


def test_where_landlock_does_not_scope_signals_seccomp_keeps_them_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on kernels before 6.12; only an ordinary user's children share their uid with anybody."""
    if os.geteuid() == 0:
        pytest.skip(f"{AS_ANOTHER}: a child of root has a uid of its own")
    usable("landlock")
    monkeypatch.setattr(landlock, "version", lambda: landlock.SCOPES_SIGNALS - 1)
    with victim() as attacked, payload_child("landlock") as child:
        found = child.call("payload.signal_everybody", timeout_s=60, pid=attacked.pid).fields["found"]
        assert set(found.values()) == {"EPERM"}
        assert attacked.poll() is None
        assert child.call("payload.torch_and_compiler", timeout_s=300).fields["f"] == 4.0


def test_killing_its_own_group_is_a_crash_and_no_more(mode: Mode) -> None:
    with payload_child(mode) as child:
        pids = processes_of(child)
        error = failure(child, "kill_group")
    assert error.id == "child:user:crashed"
    assert "SIGKILL" in error.message
    assert wait_until(lambda: not alive(pids))
    next_child_works(mode)


def test_a_daemon_dies_with_its_child(mode: Mode) -> None:
    with payload_child(mode) as child:
        first = processes_of(child)
        child.call("payload.daemonise", timeout_s=60)
        assert wait_until(lambda: len(processes_of(child)) > len(first))
        pids = processes_of(child)
    assert wait_until(lambda: not alive(pids))


def test_a_daemon_of_a_crashed_child_dies_too(mode: Mode) -> None:
    with payload_child(mode) as child:
        first = processes_of(child)
        child.call("payload.daemonise", timeout_s=60)
        assert wait_until(lambda: len(processes_of(child)) > len(first))
        pids = processes_of(child)
        assert failure(child, "leave", code=1).id == "child:user:crashed"
        assert wait_until(lambda: not alive(pids))


def test_a_paused_child_stands_still_with_all_its_helpers(mode: Mode) -> None:
    with payload_child(mode) as child:
        child.call("payload.spin_in_helpers", timeout_s=60, count=2)
        child.call("payload.tick", timeout_s=60)
        assert wait_until(lambda: len(child._launched.tree.scan()) >= 3)
        pids = child._launched.tree.scan()
        child.pause()
        assert wait_until(lambda: all(state_of(pid) == "T" for pid in pids))
        child.resume()
        before = child.call("payload.tick", timeout_s=60).fields["ticks"]
        assert wait_until(lambda: child.call("payload.tick", timeout_s=60).fields["ticks"] > before)


def test_pausing_costs_less_than_a_millisecond(mode: Mode) -> None:
    with payload_child(mode) as child:
        costs = []
        for _ in range(50):
            started = time.perf_counter()
            child.pause()
            child.resume()
            costs.append(time.perf_counter() - started)
        assert sorted(costs)[25] < 1e-3
        assert child.call("payload.hello", timeout_s=60).fields["pid"]


def test_a_stopped_child_is_killed_all_the_same(mode: Mode) -> None:
    with payload_child(mode) as child:
        pids = processes_of(child)
        child.pause()
    assert wait_until(lambda: not alive(pids))


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


ORPHANS = """
import os, sys, time
sys.path.insert(0, {root!r})
import threading
from tests.hostile.support import payload_child, processes_of
def begin():
    global child
    child = payload_child({mode!r})
thread = threading.Thread(target=begin)
thread.start()
thread.join()
child.call("payload.daemonise", timeout_s=60)
time.sleep(0.5)
print(*processes_of(child), flush=True)
time.sleep(600)
"""


def test_children_die_with_a_coordinator_that_is_killed(mode: Mode) -> None:
    """Also when the thread that started them ended before: they do not die with that, nor outlive the process."""
    code = ORPHANS.format(root=str(ROOT), mode=mode)
    coordinator = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert coordinator.stdout is not None
    pids = {int(word) for word in coordinator.stdout.readline().split()}
    assert len(pids) >= 3
    assert alive(pids) == pids
    coordinator.kill()
    coordinator.wait()
    coordinator.stdout.close()
    assert wait_until(lambda: not alive(pids)), alive(pids)
