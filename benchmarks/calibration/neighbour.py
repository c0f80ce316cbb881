"""The noisy neighbour: a process that works on one core in bursts, `python -m benchmarks.calibration.neighbour SEED`.

Bursts and pauses last 0.2 to 1.5 s each, evenly drawn, so that it works half of the time and no burst or round of ours
meets all of it. It copies an array that no cache holds: it takes a core and memory bandwidth. It ends with its input,
so that nothing outlives a recording that was killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

LEAST_S, MOST_S = 0.2, 1.5
BUFFER_BYTES = 64 << 20
PATIENCE_S = 10.0


@contextmanager
def neighbour(seed: int) -> Iterator[subprocess.Popen[bytes]]:
    """It runs, and its memory is there, while the block does. Raises RuntimeError when it does not come up."""
    command = [sys.executable, "-m", "benchmarks.calibration.neighbour", str(seed)]
    # in a session of its own: an interrupt from the keyboard is for the recording, which then ends it
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError("the noisy neighbour did not start")
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def work(seed: int) -> None:
    """Never returns."""
    rng = np.random.default_rng(seed)
    source = np.ones(BUFFER_BYTES // 8)
    target = np.empty_like(source)
    np.copyto(target, source)
    print("ready", flush=True)
    while True:
        until = time.monotonic() + rng.uniform(LEAST_S, MOST_S)
        while time.monotonic() < until:
            np.copyto(target, source)
        time.sleep(rng.uniform(LEAST_S, MOST_S))


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    work(int(sys.argv[1]))
