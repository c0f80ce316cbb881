"""Runs just before a child, as `python -I -S shim.py FD`: reads its orders from FD, gives up what they say, becomes it.

Order matters: limits, uid, no-new-privileges, Landlock, seccomp. Where no PID namespace keeps the child's descendants
together it stays on as their supervisor: it adopts orphans, and when the child or the coordinator ends it kills all.
Standard library only, and the two files of that kind beside it; in a bubblewrap it runs inside.
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

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import descendants
import landlock

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 24, 38, 22
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
    descendants.adopt_orphans()
    descendants.end_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: None)  # wakes the poll below; the lifeline then reads as closed
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(orders["lifeline"])
        confine(orders)
        descendants.end_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it died before this could notice
        become(orders)
    descendants.close_all_but([orders["lifeline"]])
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(1, 2)
    code = watch(child, orders["lifeline"])
    descendants.kill(orders["uid"])
    return code


def watch(child: int, lifeline: int) -> int:
    """The child's exit code, or that of a killed one when the coordinator has ended; collects orphans meanwhile."""
    waker = descendants.waker()
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(waker, select.POLLIN)
    while True:
        code = descendants.reap(child)
        if code is not None:
            return code
        if any(fd == lifeline for fd, _ in poll.poll(1000)):
            return 128 + signal.SIGKILL
        with contextlib.suppress(BlockingIOError):
            os.read(waker, 4096)


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
