"""Runs just before a child, as `python -I -S shim.py FD`: reads its orders from FD, gives up what they say, becomes it.

Order matters: limits, uid, no-new-privileges, Landlock, seccomp. Where no PID namespace keeps the child's descendants
together it stays on as their supervisor: it adopts orphans, and when the child or the coordinator ends it kills all.
Standard library only; in a bubblewrap it runs inside.
"""

import base64
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import landlock

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, PR_SET_SECCOMP = 1, 24, 38, 36, 22
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
SECCOMP_MODE_FILTER = 2
LAST_CAPABILITY = 63
CAPABILITY_VERSION_3 = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def prctl(option: int, *arguments: object) -> int:
    padded = [*arguments, 0, 0, 0, 0][:4]
    return int(libc.prctl(option, *(ctypes.c_ulong(a) if isinstance(a, int) else a for a in padded)))


def must(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def confine(orders: dict) -> None:
    for which, value in orders["rlimits"]:
        resource.setrlimit(which, (value, value))
    if orders["uid"] is not None:
        drop_to(orders["uid"])
    must(prctl(PR_SET_NO_NEW_PRIVS, 1), "no new privileges")
    if orders["landlock"] is not None:
        rules = orders["landlock"]
        own = pinned_own_proc()
        landlock.restrict(read=[*rules["read"], own], write=rules["write"], devices=rules["devices"])
    for text in orders["seccomp"]:
        program = base64.b64decode(text)
        argument = Program(len(program) // 8, program)
        must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(argument)), "seccomp")


def drop_to(uid: int) -> None:
    """For good: no capability is left in any set, none comes back by exec."""
    for capability in range(LAST_CAPABILITY + 1):
        if prctl(PR_CAPBSET_DROP, capability) != 0:
            break  # past the kernel's last capability
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    must(libc.capset(header, bytes(24)), "no capabilities")  # the inheritable ones outlive the change of uid
    if os.getresuid() != (uid, uid, uid):
        raise OSError("the uid did not drop")


def pinned_own_proc() -> str:
    """Only the child's own /proc folder is readable. A rule holds on to the folder's inode, which procfs makes anew
    once nobody uses it: the descriptor stays open for the child's whole life."""
    path = f"/proc/{os.getpid()}"
    os.set_inheritable(os.open(path, os.O_PATH | os.O_DIRECTORY), True)
    return path


def become(orders: dict) -> None:
    os.chdir(orders["folder"])
    os.execve(orders["command"][0], orders["command"], orders["environment"])


def supervise(orders: dict) -> int:
    """Runs the child below itself and answers its exit status the way a shell does."""
    must(prctl(PR_SET_CHILD_SUBREAPER, 1), "subreaper")
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: None)  # wakes the poll below; the lifeline then reads as closed
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(orders["lifeline"])
        confine(orders)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it died before this could notice
        become(orders)
    os.closerange(3, orders["lifeline"])
    os.closerange(orders["lifeline"] + 1, 65536)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(1, 2)
    status = watch(child, orders["lifeline"])
    kill_descendants(orders["uid"])
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def watch(child: int, lifeline: int) -> int:
    """Waits for the child's end or the coordinator's; reaps adopted orphans meanwhile."""
    waker, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(waker, select.POLLIN)
    while True:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return signal.SIGKILL
            if pid == child:
                return status
            if pid == 0:
                break
        if any(fd == lifeline for fd, _ in poll.poll(1000)):
            return signal.SIGKILL
        with contextlib.suppress(BlockingIOError):
            os.read(waker, 4096)


def descendants() -> list:
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile
            if state not in (b"Z", b"X"):
                parents[int(entry)] = int(parent)
    own, grown = {os.getpid()}, True
    while grown:
        new = {pid for pid, parent in parents.items() if parent in own} - own
        own |= new
        grown = bool(new)
    return sorted(own - {os.getpid()})


def kill_descendants(uid: int | None) -> None:
    """Stops all before it kills any: a fork bomb outruns one sweep. `kill -1` of the child's own uid is one stroke."""
    for sweep in range(500):
        if uid is not None and os.fork() == 0:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
            os._exit(0)
        found = descendants()
        for number in (signal.SIGSTOP, signal.SIGKILL) if sweep else (signal.SIGSTOP,):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001 if sweep < 20 else 0.02)


def main() -> None:
    fd = int(sys.argv[1])
    with open(fd, "rb") as file:
        file.seek(0)
        orders = json.load(file)
    if orders["lifeline"] is None:
        confine(orders)
        become(orders)
    sys.exit(supervise(orders))


main()
