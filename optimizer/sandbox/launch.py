"""Starts the processes of one child in one of three ways, and knows how to end them for good.

`bubblewrap` and `landlock` confine; `trusted` only keeps the tree together. All three give the child the same wire,
log, environment and working folder. Raises OSError and RuntimeError: `choose` and `child` give them their meaning.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from optimizer.sandbox import bubblewrap, identity, landlock, layout, limits, seccomp, staging
from optimizer.sandbox.folders import own_folder, remove_folder
from optimizer.sandbox.spec import ChildSpec
from optimizer.sandbox.tree import Tree
from optimizer.sandbox.usage import FolderUsage, TmpfsUsage

Command = Callable[[int, Mapping[str, str]], list[str]]
Mode = Literal["bubblewrap", "landlock", "trusted"]
NAMES: dict[Mode, str] = {"bubblewrap": "bubblewrap", "landlock": "landlock", "trusted": "none (trusted)"}
START_S = 30.0
END_S = 20.0

# PDEATHSIG fires when the *thread* that started a process ends, so one thread that never ends starts them all
_starter = ThreadPoolExecutor(1, thread_name_prefix="child-starter")


@dataclass
class Launched:
    """A child's processes. `close` ends what is left of them and takes the scratch away."""

    process: subprocess.Popen[bytes]
    process_fd: int
    tree: Tree
    wire: socket.socket
    log_fd: int
    usage: FolderUsage | TmpfsUsage
    paths: dict[str, str]
    folder: Path
    lock_fd: int
    lifeline: int | None = None
    init_fd: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def kill(self) -> None:
        """Ends every process of the child; safe from any thread, more than once, and on a stopped tree."""
        with self._lock:
            if self.init_fd is not None:
                _signal(self.init_fd, signal.SIGKILL)  # the PID namespace's first process takes all others with it
                return
            if self.lifeline is not None:
                os.close(self.lifeline)
                self.lifeline = None
        self.tree.kill()

    def ended(self, timeout_s: float) -> bool:
        return _ended(self.process_fd, timeout_s)

    def close(self) -> int:
        """Kills, waits until nobody is left, removes the scratch. Answers the exit status as a shell would say it."""
        self.kill()
        for fd in (self.init_fd, self.process_fd):
            if fd is not None and not _ended(fd, END_S):
                self.process.kill()
                self.tree.kill()
        code = self.process.wait(END_S)
        self.usage.close()
        with self._lock:
            for fd in (self.init_fd, self.process_fd):
                if fd is not None:
                    os.close(fd)
            self.init_fd = None
        self.tree.close()
        self.wire.close()
        remove_folder(self.folder)
        os.close(self.lock_fd)
        return code if code >= 0 else 128 - code


def launch(spec: ChildSpec, mode: Mode, command: Command = layout.child_command) -> Launched:
    """Starts `command(wire descriptor, paths of the inputs)`. Everything that was made is undone when it fails."""
    inputs = staging.resolved_inputs(spec.inputs)
    uid = identity.uid_to_drop_to() if mode != "trusted" else None
    folder, lock_fd = own_folder()
    undo: list[Callable[[], None]] = [lambda: os.close(lock_fd), lambda: remove_folder(folder)]
    try:
        inputs = staging.readable(inputs, uid=uid, parents_count=mode == "landlock", folder=folder / "in")
        bound = mode == "bubblewrap"
        paths = {name: f"{bubblewrap.INPUTS}/{name}" if bound else str(path) for name, path in inputs.items()}
        ours, theirs = socket.socketpair()
        undo += [ours.close]
        log_read, log_write = os.pipe()
        undo += [lambda: os.close(log_read)]
        try:
            start = _Start(spec, mode, uid, folder, lock_fd, inputs, paths, command(theirs.fileno(), paths))
            return start(ours, theirs.fileno(), log_read, log_write)
        finally:
            theirs.close()
            os.close(log_write)
    except BaseException:
        for step in reversed(undo):
            step()
        raise


@dataclass
class _Start:
    spec: ChildSpec
    mode: Mode
    uid: int | None
    folder: Path
    lock_fd: int
    inputs: dict[str, Path]
    paths: dict[str, str]
    command: list[str]

    def __call__(self, wire: socket.socket, their_wire: int, log_read: int, log_write: int) -> Launched:
        scratch = bubblewrap.SCRATCH if self.mode == "bubblewrap" else self._make_scratch()
        orders = self._orders(scratch)
        if self.mode == "bubblewrap":
            return self._in_bubblewrap(orders, wire, their_wire, log_read, log_write)
        lifeline_read, lifeline_write = os.pipe()
        try:
            orders["lifeline"] = lifeline_read
            with _document(orders) as order_file:
                argv = layout.shim_command(order_file.fileno())
                process = _popen(argv, log_write, [order_file.fileno(), their_wire, lifeline_read])
        except BaseException:
            os.close(lifeline_write)
            raise
        finally:
            os.close(lifeline_read)
        tree = Tree({process.pid})
        return Launched(
            process=process,
            process_fd=os.pidfd_open(process.pid),
            tree=tree,
            wire=wire,
            log_fd=log_read,
            usage=FolderUsage(Path(scratch), self.spec.limits.scratch_bytes, tree),
            paths=self.paths,
            folder=self.folder,
            lock_fd=self.lock_fd,
            lifeline=lifeline_write,
        )

    def _in_bubblewrap(
        self, orders: dict[str, Any], wire: socket.socket, their_wire: int, log_read: int, log_write: int
    ) -> Launched:
        program = bubblewrap.program()
        if program is None:
            raise RuntimeError("bwrap is not installed")
        info_read, info_write = os.pipe()
        try:
            with _document(orders) as order_file, tempfile.TemporaryFile() as argument_file:
                given = bubblewrap.arguments(
                    inputs=self.inputs,
                    limits=self.spec.limits,
                    devices=self.spec.devices,
                    device_reads=self.spec.device_reads,
                    drops_uid=self.uid is not None,
                )
                argument_file.write(b"".join(word.encode() + b"\0" for word in given))
                argument_file.seek(0)
                fds = [order_file.fileno(), their_wire, argument_file.fileno(), info_write]
                argv = [program, "--args", str(fds[2]), "--info-fd", str(fds[3]), "--"]
                argv += layout.shim_command(order_file.fileno())
                process = _popen(argv, log_write, fds)
        finally:
            os.close(info_write)
        try:
            init = _first_pid(info_read, process, log_read)
        finally:
            os.close(info_read)
        return Launched(
            process=process,
            process_fd=os.pidfd_open(process.pid),
            tree=Tree({process.pid, init}),
            wire=wire,
            log_fd=log_read,
            usage=TmpfsUsage(init, bubblewrap.SCRATCH_MOUNT, bubblewrap.SHM_MOUNT),
            paths=self.paths,
            folder=self.folder,
            lock_fd=self.lock_fd,
            init_fd=os.pidfd_open(init),
        )

    def _make_scratch(self) -> str:
        scratch = self.folder / "scratch"
        scratch.mkdir(mode=0o700)
        if self.uid is not None:
            os.chown(scratch, self.uid, self.uid)
        return str(scratch)

    def _orders(self, scratch: str) -> dict[str, Any]:
        trusted, own_uid = self.mode == "trusted", self.uid is None
        # a user namespace of its own starts counting tasks at nothing
        counted = limits.tasks_of(os.getuid()) if own_uid and self.mode == "landlock" else 0
        programs: list[bytes] = []
        bounds = limits.trusted_rlimits()
        if not trusted:
            scoped = landlock.version() >= landlock.SCOPES_SIGNALS
            programs = seccomp.programs(shares_host=self.mode == "landlock", shares_uid=own_uid, may_signal=scoped)
            bounds = limits.rlimits(self.spec.limits, counts_from=counted, has_device=bool(self.spec.devices))
        return {
            "rlimits": bounds,
            "uid": self.uid,
            "landlock": self._landlock_rules(scratch) if self.mode == "landlock" else None,
            "seccomp": [base64.b64encode(program).decode() for program in programs],
            "folder": scratch,
            "command": self.command,
            "environment": _environment(scratch, self.spec),
            "lifeline": None,
        }

    def _landlock_rules(self, scratch: str) -> dict[str, list[str]]:
        wanted = [*map(str, layout.read_only_paths()), *layout.PROC_FILES, *self.spec.device_reads]
        read = [os.path.realpath(path) for path in wanted if os.path.exists(path)]
        read += [str(path) for path in self.inputs.values()]
        devices = [d for d in layout.PLAIN_DEVICES if os.path.exists(d)]
        return {"read": read, "write": [scratch], "devices": [*devices, *self.spec.devices]}


def _environment(scratch: str, spec: ChildSpec) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "fuseworks",  # no uid has a name here, and Inductor asks for one
        "LOGNAME": "fuseworks",
        "LANG": "C.UTF-8",
        "FUSEWORKS_SCRATCH": scratch,
        **spec.environment,
    }


def _document(orders: dict[str, Any]) -> Any:
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    file.write(json.dumps(orders).encode())
    file.flush()
    return file


def _popen(argv: Sequence[str], log_fd: int, fds: Sequence[int]) -> subprocess.Popen[bytes]:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=log_fd,
            env={},
            cwd="/",
            pass_fds=fds,
            start_new_session=True,
        )

    return _starter.submit(start).result()


def _first_pid(info_fd: int, process: subprocess.Popen[bytes], log_fd: int) -> int:
    """The host's pid of the sandbox's first process. Raises RuntimeError with what bubblewrap printed."""
    text, deadline = b"", time.monotonic() + START_S
    poll = select.poll()
    poll.register(info_fd, select.POLLIN)
    while time.monotonic() < deadline and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        data = os.read(info_fd, 4096)
        text += data
        if not data or b"}" in text:
            break
    try:
        return int(json.loads(text)["child-pid"])
    except (ValueError, KeyError, TypeError) as error:
        process.kill()
        process.wait()
        raise RuntimeError(f"bubblewrap did not start: {printed_so_far(log_fd)}") from error


def printed_so_far(log_fd: int) -> str:
    os.set_blocking(log_fd, False)
    try:
        return os.read(log_fd, 1 << 16).decode(errors="replace").strip()
    except BlockingIOError:
        return "(it printed nothing)"


def _signal(fd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return  # it ended


def _ended(fd: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
