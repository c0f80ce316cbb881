"""Starts the children that take steps, reads what they say, and ends them when their time is over. No torch.

A step that a child died of is told as failed, with the end of what it printed; the rest goes to a fresh child.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.gpu_check.record import ROOT

GRACE_S = 15.0  # a compiler may be at work when the time is over
TAIL_CHARACTERS = 1500
MODULE = "benchmarks.gpu_check.child"

Tell = Callable[[str, dict[str, Any]], None]


class ChildFailed(RuntimeError):
    """A child could not say where it is. The message is the end of what it printed."""


def ask(*, interpreter: bool, timeout_s: float = 120.0) -> dict[str, Any]:
    """Where this is and which kernels there are. Raises ChildFailed."""
    command = _command(interpreter, timeout_s, [])
    done = subprocess.run(
        command, cwd=ROOT, env=_environment(interpreter), capture_output=True, text=True, timeout=timeout_s
    )
    if done.returncode != 0:
        raise ChildFailed(done.stderr[-TAIL_CHARACTERS:])
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def take(steps: Sequence[str], tell: Tell, *, workers: int, until: float, interpreter: bool) -> None:
    """`until`: of `time.monotonic`. `tell` gets each step that was begun; those that were not are not told."""
    shards = [list(steps[place::workers]) for place in range(workers)]
    with ThreadPoolExecutor(max_workers=max(workers, 1)) as pool:
        for future in [pool.submit(_shard, shard, tell, until, interpreter) for shard in shards if shard]:
            future.result()


def _shard(steps: list[str], tell: Tell, until: float, interpreter: bool) -> None:
    ahead = list(steps)
    while ahead and time.monotonic() < until:
        taken, printed = _child(ahead, tell, until, interpreter)
        if not taken and time.monotonic() < until:
            tell(ahead[0], {"status": "failed", "reason": f"its process ended before it began: {printed}"})
        ahead = ahead[max(taken, 1) :]


def _child(steps: list[str], tell: Tell, until: float, interpreter: bool) -> tuple[int, str]:
    """How many of the steps were begun, and the end of what it printed."""
    begun: list[str] = []
    done: set[str] = set()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            _command(interpreter, until - time.monotonic(), steps), cwd=ROOT, env=_environment(interpreter),
            stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        end = threading.Timer(until + GRACE_S - time.monotonic(), process.kill)
        end.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said = json.loads(line)
                if "begun" in said:
                    begun.append(said["begun"])
                else:
                    done.add(said["done"])
                    tell(said["done"], said["outcome"])
            code = process.wait()
        finally:
            end.cancel()
            process.kill()
        errors.seek(0)
        tail = errors.read()[-TAIL_CHARACTERS:]
    for step in begun:
        if step not in done:
            over = time.monotonic() > until
            reason = "its time was over" if over else f"its process ended with {code}: {tail}"
            tell(step, {"status": "cut" if over else "failed", "reason": reason})
    return len(begun), tail


def _command(interpreter: bool, seconds: float, steps: Sequence[str]) -> list[str]:
    mode = ["--interpreter"] if interpreter else []
    return [sys.executable, "-m", MODULE, *mode, "--seconds", f"{max(seconds, 0):.1f}", *steps]


def _environment(interpreter: bool) -> dict[str, str]:
    """The interpreter must be chosen before triton is imported."""
    given = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return {**given, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"} if interpreter else given
