"""A process of the installation under test: started like an operator does, ended like an accident does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.workers.fake_platform import alive, wait_until

ROOT = Path(__file__).parents[2]


class Running:
    """In a session of its own; what it prints is in `log`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def descendants(self) -> list[int]:
        try:
            return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """`kill -9`; whatever it had started must be gone soon after."""
        left = self.descendants()
        self.process.kill()
        self.process.wait()
        wait_until(lambda: not any(alive(pid) for pid in left))

    def freeze(self) -> None:
        """This process alone: what it started goes on."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self, by: signal.Signals = signal.SIGTERM, timeout_s: float = 30.0) -> int:
        """Politely. The exit code."""
        self.process.send_signal(by)
        return self.process.wait(timeout_s)

    def is_running(self) -> bool:
        return self.process.poll() is None

    def force_end(self) -> None:
        if self.is_running():
            self.process.kill()
            self.process.wait()
