"""The process tree: found by parentage, never a stranger, stopped and killed as one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from optimizer.sandbox.tree import Tree

SHELL = "sleep 300 & sleep 300 & wait"


@pytest.fixture
def launcher() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with two children of its own, and a stranger beside it."""
    process = subprocess.Popen(["/bin/sh", "-c", SHELL])
    stranger = subprocess.Popen(["sleep", "300"])
    yield process
    Tree({process.pid}).kill()
    for each in (process, stranger):
        each.kill()
        each.wait()
    assert stranger.returncode == -9


def grown(tree: Tree, count: int) -> list[int]:
    deadline = time.monotonic() + 10
    while len(pids := tree.scan()) != count and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(pids) == count
    return pids


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def soon(condition: Callable[[], bool]) -> bool:
    """A signal is taken when its process next runs, which a busy machine may put off."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def test_it_holds_the_descendants_of_the_launcher_but_not_itself(launcher: subprocess.Popen[bytes]) -> None:
    tree = Tree({launcher.pid})
    pids = grown(tree, 2)
    assert launcher.pid not in pids
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    tree.close()


def test_it_stops_and_goes_on(launcher: subprocess.Popen[bytes]) -> None:
    tree = Tree({launcher.pid})
    pids = grown(tree, 2)
    tree.stop()
    assert soon(lambda: {state(pid) for pid in pids} == {"T"})
    assert state(launcher.pid) != "T"
    tree.go_on()
    assert soon(lambda: "T" not in {state(pid) for pid in pids})
    tree.close()


def test_it_kills_all_and_forgets_them(launcher: subprocess.Popen[bytes]) -> None:
    tree = Tree({launcher.pid})
    grown(tree, 2)
    tree.kill()
    grown(tree, 0)
    tree.close()


def test_it_counts_memory_and_files_without_a_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("f")
    code = (
        "import os, sys, time; x = b'x' * (50 << 20); f = open(sys.argv[1], 'wb'); f.write(x[:5 << 20]); f.flush(); "
        "os.unlink(sys.argv[1]); print('ready', flush=True); time.sleep(300)"
    )
    shell = f'"$0" -c "{code}" {folder}/f & wait'
    import sys

    process = subprocess.Popen(["/bin/sh", "-c", shell, sys.executable], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    tree = Tree({process.pid})
    grown(tree, 1)
    memory = tree.memory()
    assert 50 << 20 <= memory.private <= memory.resident < 200 << 20
    assert 50 << 20 <= tree.proportional_bytes() < 200 << 20
    assert 5 << 20 <= tree.deleted_bytes(os.stat(folder).st_dev) < 6 << 20
    tree.kill()
    tree.close()
    process.wait()
    process.stdout.close()


def test_a_launcher_that_is_gone_brings_in_nobody() -> None:
    process = subprocess.Popen(["sleep", "300"])
    tree = Tree({process.pid})
    process.kill()
    process.wait()
    assert tree.scan() == []
    assert tree.memory().resident == 0
    tree.kill()
    tree.close()
