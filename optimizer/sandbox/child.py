"""A child process seen from the coordinator: started under confinement, called over the wire, paused and killed.

Whatever the child does, a call ends: with its answer, or with a ChildFailed that says whose fault it was. After a
failure of the child itself (not an error that it reports) it is dead.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.children.reportable import may_report
from optimizer.errors import FuseworksError
from optimizer.sandbox.channel import Channel, ChildGone, DeadlinePassed, ProtocolError
from optimizer.sandbox.choose import choose
from optimizer.sandbox.files import CollectedFile, Collector
from optimizer.sandbox.launch import NAMES, Command, Mode, launch
from optimizer.sandbox.layout import child_command
from optimizer.sandbox.spec import MIB, ChildSpec, Limits
from optimizer.sandbox.watcher import Watcher

__all__ = ["Child", "ChildFailed", "ChildSpec", "Limits", "Reply", "start"]

READY_S = 120.0
DYING_S = 2.0
MAX_PROGRESS_EVENTS = 10_000
NO_MEMORY_WORDS = ("bad_alloc", "MemoryError", "allocate memory", "out of memory", "Out of memory")

Progress = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Reply:
    """`files` are those that the call handed over, by name."""

    fields: dict[str, Any]
    arrays: list[np.ndarray]
    files: Mapping[str, CollectedFile] = field(default_factory=dict)


class ChildFailed(FuseworksError):
    """The child itself failed (crash, hang, memory, protocol) and is dead now, or it reported an error and lives."""


class Child:
    """Use as a context manager, or `kill` it. `sandbox` names the confinement that it runs in."""

    def __init__(self, spec: ChildSpec, mode: Mode, command: Command = child_command) -> None:
        self.spec = spec
        self.sandbox = NAMES[mode]
        self._failure: ChildFailed | None = None
        self._closed = False
        self._launched = launch(spec, mode, command)
        self._channel = Channel(self._launched.wire, self._launched.process_fd)
        self._watcher = Watcher(
            log_fd=self._launched.log_fd,
            limits=spec.limits,
            tree=self._launched.tree,
            usage=self._launched.usage,
            end=self._launched.kill,
        )
        try:
            self.ready = self._answer(READY_S, "starting", "ready", Collector(None, spec.limits), None).fields
            self._launched.usage.attach()
            self._launched.tree.scan()
        except ChildFailed as failure:
            # no code of the model has run yet
            raise ChildFailed("sandbox:ours:start-failed", sandbox=self.sandbox, detail=failure.detail) from failure
        except BaseException:
            self.kill()
            raise

    def path(self, name: str) -> str:
        """Where the child sees input `name`."""
        return self._launched.paths[name]

    def call(
        self,
        op: str,
        arrays: Sequence[np.ndarray] = (),
        *,
        timeout_s: float,
        collect: Path | None = None,
        on_progress: Progress | None = None,
        **fields: Any,
    ) -> Reply:
        """Runs `stage.name` in the child. Files that it sends land in `collect`. Raises ChildFailed."""
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise ChildFailed("child:ours:unexpected", detail=f"{op} was called on a child that was killed")
        if self._channel.pending():
            raise self._failed("child:user:bad-answer", text="it spoke before it was asked")
        deadline = time.monotonic() + timeout_s
        try:
            self._channel.send({"op": op, **fields}, arrays, deadline)
        except DeadlinePassed:
            raise self._timed_out(timeout_s, op) from None
        except ChildGone:
            raise self._died() from None
        return self._answer(timeout_s, op, "done", Collector(collect, self.spec.limits), on_progress, deadline)

    def _answer(
        self,
        timeout_s: float,
        doing: str,
        expected: str,
        collector: Collector,
        on_progress: Progress | None,
        deadline: float | None = None,
    ) -> Reply:
        deadline = time.monotonic() + timeout_s if deadline is None else deadline
        try:
            header, arrays = self._frames(expected, collector, on_progress, deadline)
        except DeadlinePassed:
            raise self._timed_out(timeout_s, doing) from None
        except ChildGone:
            raise self._died() from None
        except ProtocolError as error:
            raise self._failed("child:user:bad-answer", text=str(error)) from None
        except BaseException:
            self.kill()  # the answer is half read: nothing sensible can follow on this wire
            raise
        if "error" in header:
            raise self._reported(header["error"])
        return Reply(header, arrays, collector.files)

    def _frames(
        self, expected: str, collector: Collector, on_progress: Progress | None, deadline: float
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Takes files and progress until the answer comes."""
        for _ in range(MAX_PROGRESS_EVENTS):
            header, arrays = self._channel.receive(deadline, self.spec.limits.answer_bytes)
            event = header.pop("event", None)
            if event == expected:
                return header, arrays
            if event == "file":
                collector.take(header, self._channel, deadline)
            elif event == "progress":
                message, data = header.get("message"), header.get("data")
                if not (isinstance(message, str) and isinstance(data, dict)):
                    raise ProtocolError("a progress event without message and data")
                if on_progress:
                    on_progress(message[:2000], data)
            else:
                raise ProtocolError(f"it sent the event {str(event)[:40]!r}, not {expected!r}")
        raise ProtocolError(f"it sent more than {MAX_PROGRESS_EVENTS} events for one answer")

    def _reported(self, document: Any) -> ChildFailed:
        """The error that an operation raised. The child lives on."""
        id_ = document.get("id") if isinstance(document, dict) else None
        if not isinstance(id_, str) or not _fits(document):
            return self._failed("child:user:bad-answer", text="its error is no error document")
        if not may_report(id_):
            return self._failed("child:user:bad-answer", text=f"it reports {id_}, which is not a child's to tell")
        if id_ == "child:user:exception" and self._watcher.scratch_is_full():
            id_ = "child:user:disk-full"
        context = {**dict(document.get("context") or {}), **self._limit_of(id_)}
        failure = ChildFailed.from_document({**document, "id": id_, "context": context})
        assert isinstance(failure, ChildFailed)
        return failure

    def _died(self) -> ChildFailed:
        """It closed the wire: tells why, from what the watcher saw, how it exited and what it printed last."""
        ended = self._launched.ended(DYING_S)
        full = self._watcher.scratch_is_full()
        code = self.kill()
        if self._watcher.verdict is None and not ended:
            return self._failed("child:user:bad-answer", text="it closed the wire and went on")
        if full:
            return self._failed("child:user:disk-full")
        if any(words in self.log_tail(2000) for words in NO_MEMORY_WORDS):
            return self._failed("child:user:out-of-memory")
        return self._failed("child:user:crashed", signal=_exit_name(code))

    def _timed_out(self, timeout_s: float, doing: str) -> ChildFailed:
        """`doing`: an operation, which is told by its stage: `compiling.build` as `compiling`."""
        limit_s = f"{timeout_s:.0f}" if timeout_s >= 10 else f"{timeout_s:.2g}"
        return self._failed("child:user:timed-out", limit_s=limit_s, doing=doing.partition(".")[0])

    def _failed(self, id_: str, **context: Any) -> ChildFailed:
        """Kills the child. What the watcher ended it for goes before what the wire then looked like."""
        self.kill()
        if self._watcher.verdict is not None:
            id_ = self._watcher.verdict
        self._failure = ChildFailed(id_, detail=self.log_tail(), **{**context, **self._limit_of(id_)})
        return self._failure

    def _limit_of(self, id_: str) -> dict[str, int]:
        limits = self.spec.limits
        limit_bytes = {
            "child:user:out-of-memory": limits.memory_bytes,
            "child:user:disk-full": limits.scratch_bytes,
            "child:user:too-much-output": limits.log_bytes,
        }.get(id_)
        return {} if limit_bytes is None else {"limit_mib": limit_bytes // MIB}

    def pause(self) -> None:
        """SIGSTOP to the whole tree: spinning threads of a waiting contender must not disturb the others."""
        self._launched.tree.stop()

    def resume(self) -> None:
        self._launched.tree.go_on()

    def memory_bytes(self) -> int:
        """Resident memory over the tree."""
        self._launched.tree.scan()
        return self._launched.tree.memory().resident

    def cpu_ns(self) -> int:
        """Processor time over the tree so far, which no clock in the child has a say in."""
        return self._launched.tree.cpu_ns()

    def log_tail(self, size: int = 8000) -> str:
        """The end of what the child printed, as far as it has been read."""
        return bytes(self._watcher.log[-size:]).decode(errors="replace")

    def kill(self) -> int:
        """Ends the child and everything that it started, and takes its scratch away. Answers its exit status."""
        if not self._closed:
            self._closed = True
            self._launched.kill()
            self._watcher.close()
            self._exit_status = self._launched.close()
        return self._exit_status

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _fits(document: dict[str, Any]) -> bool:
    context = document.get("context")
    return context is None or (isinstance(context, dict) and len(context) < 100)


def _exit_name(code: int) -> str:
    if code <= 128:
        return f"exit code {code}"
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return f"exit code {code}"


def start(spec: ChildSpec, *, mode: Mode | None = None, command: Command = child_command) -> Child:
    """Starts a child and waits until it is ready. `mode` forces a confinement and `command` another program: for tests.

    Raises FuseworksError (`sandbox:ours:unavailable`, `sandbox:ours:start-failed`, `sandbox:usage:input`).
    """
    mode = "trusted" if spec.trusted else mode or choose()
    try:
        return Child(spec, mode, command)
    except (OSError, RuntimeError) as error:
        raise FuseworksError("sandbox:ours:start-failed", sandbox=NAMES[mode], detail=str(error)) from error
