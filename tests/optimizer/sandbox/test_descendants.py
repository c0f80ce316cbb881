"""What the two supervisors share, in processes of their own: it closes descriptors and collects children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.sandbox import descendants

FOLDER = Path(descendants.__file__).parent


def told(program: str) -> str:
    """What a program prints that imports the module as the supervisors do: by its name, without any package."""
    code = f"import os, signal, sys, time\nsys.path.insert(0, {str(FOLDER)!r})\nimport descendants\n{program}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("ending", "code"), [("os._exit(7)", 7), ("os._exit(0)", 0), ("os.kill(os.getpid(), signal.SIGTERM)", 143)]
)
def test_a_childs_exit_code_is_told_as_a_shell_does(ending: str, code: int) -> None:
    program = f"child = os.fork()\nif child == 0:\n    {ending}\n"
    program += "while (code := descendants.reap(child)) is None:\n    time.sleep(0.01)\nprint(code)"
    assert told(program) == str(code)


def test_a_child_that_lives_has_no_code_and_one_that_is_not_there_counts_as_killed() -> None:
    program = "child = os.fork()\nif child == 0:\n    time.sleep(60)\nprint(descendants.reap(child))\n"
    program += "descendants.kill()\nprint(descendants.reap(child), descendants.found())"
    assert told(program) == "None\n137 []"


def test_the_parent_of_what_has_ended_is_unknown_though_it_was_not_collected_yet() -> None:
    program = "child = os.fork()\nif child == 0:\n    os._exit(0)\n"
    program += "os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\nprint(descendants.parent_of(child))"
    assert told(program) == "None"
    assert descendants.parent_of(os.getpid()) == os.getppid()


def test_an_orphan_is_adopted_found_and_killed() -> None:
    program = (
        "descendants.adopt_orphans()\n"
        "middle = os.fork()\n"
        "if middle == 0:\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        "os.waitpid(middle, 0)\n"
        "print(len(descendants.found()))\n"
        "descendants.kill()\n"
        "print(len(descendants.found()))"
    )
    assert told(program) == "1\n0"


def test_only_the_descriptors_that_are_named_stay_open() -> None:
    program = (
        "fds = [os.open('/dev/null', os.O_RDONLY) for _ in range(5)]\n"
        "descendants.close_all_but([fds[3], fds[1]])\n"
        "print([fd in (fds[1], fds[3]) for fd in fds if os.path.exists(f'/proc/self/fd/{fd}')])"
    )
    assert told(program) == "[True, True]"


def test_the_end_of_a_child_wakes() -> None:
    program = (
        "import select\n"
        "waker = descendants.waker()\n"
        "if os.fork() == 0:\n"
        "    os._exit(0)\n"
        "print(select.select([waker], [], [], 30)[0] == [waker])"
    )
    assert told(program) == "True"
