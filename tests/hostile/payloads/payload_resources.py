"""Takes without end: time, memory, processes, disk, output."""

import mmap
import os
import resource
import signal
import time

from payload_registry import MIB, libc, operation, os_error, syscall, tried


@operation
def loop(session, request, arrays):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


@operation
def die(session, request, arrays):
    os.kill(os.getpid(), request["signal"])
    time.sleep(60)


@operation
def leave(session, request, arrays):
    os._exit(request["code"])


@operation
def eat_in_one(session, request, arrays):
    kept = []
    while True:
        kept.append(b"x" * (16 * MIB))


@operation
def eat_in_many(session, request, arrays):
    for _ in range(12):
        if os.fork() == 0:
            kept = b"x" * (request["mib_each"] * MIB)
            time.sleep(60 + len(kept) % 2)
            os._exit(0)
    time.sleep(60)


@operation
def eat_shared(session, request, arrays):
    kept = []
    while True:
        area = mmap.mmap(-1, 16 * MIB)
        area.write(b"x" * (16 * MIB))
        kept.append(area)


@operation
def eat_tmpfs(session, request, arrays):
    """Scratch that lies in memory counts as memory; on a disk it counts as scratch."""
    for number in range(10_000):
        (session.scratch / f"f{number}").write_bytes(b"x" * (16 * MIB))
    time.sleep(60)


@operation
def eat_unseen(session, request, arrays):
    found = {
        "memfd": tried(os.memfd_create, "x"),
        "memfd_secret": tried(syscall, 447, 0),
        "shmget": tried(lambda: libc.shmget(0, MIB, 0o600) >= 0 or os_error()),
        "mq_open": tried(syscall, 240, b"x", os.O_CREAT | os.O_RDWR, 0o600, 0),
    }
    return {"found": found}, []


@operation
def fork_bomb(session, request, arrays):
    while True:
        try:
            os.fork()
        except OSError:
            continue


@operation
def count_forks(session, request, arrays):
    count = 0
    try:
        while count < 5000:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            count += 1
    except OSError:
        return {"count": count}, []
    return {"count": count}, []


@operation
def signal_everybody(session, request, arrays):
    """By signals that do nothing to whom they should not reach; the one that kills goes to the test's own victim."""
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    pid = request["pid"]
    found = {
        "group": tried(os.killpg, os.getpgid(0), signal.SIGURG),
        "all": tried(os.kill, -1, signal.SIGURG),
        "victim": tried(os.kill, pid, signal.SIGKILL),
        "victim's limits": tried(resource.prlimit, pid, resource.RLIMIT_CPU, (1, 1)),
        "victim's cores": tried(os.sched_setaffinity, pid, {0}),
        "victim's priority": tried(os.setpriority, os.PRIO_PROCESS, pid, 19),
    }
    return {"found": found}, []


@operation
def kill_group(session, request, arrays):
    os.killpg(0, signal.SIGKILL)
    time.sleep(60)


@operation
def daemonise(session, request, arrays):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in (0, 1, 2):
                os.close(fd)
            time.sleep(300)
        os._exit(0)
    return {}, []


@operation
def spin_in_helpers(session, request, arrays):
    for _ in range(request["count"]):
        if os.fork() == 0:
            while True:
                pass
    return {}, []


@operation
def fill_disk(session, request, arrays):
    for number in range(10_000):
        (session.scratch / f"f{number}").write_bytes(b"x" * (8 * MIB))
    return {}, []


@operation
def fill_disk_unseen(session, request, arrays):
    kept = []
    for number in range(10_000):
        file = open(session.scratch / f"f{number}", "wb")  # noqa: SIM115
        os.unlink(session.scratch / f"f{number}")
        file.write(b"x" * (8 * MIB))
        kept.append(file)
    return {}, []


@operation
def one_big_file(session, request, arrays):
    with open(session.scratch / "big", "wb") as file:
        while True:
            file.write(b"x" * MIB)


@operation
def many_inodes(session, request, arrays):
    for number in range(10_000_000):
        os.close(os.open(session.scratch / f"i{number}", os.O_CREAT | os.O_WRONLY))
    return {}, []


@operation
def flood(session, request, arrays):
    while True:
        os.write(1 + int(time.time() * 1000) % 2, b"A" * 65536)


@operation
def awkward_leftovers(session, request, arrays):
    """What a careless cleaner stumbles over: folders without rights, and one a thousand and more deep."""
    os.mkdir(session.scratch / "closed", 0o000)
    os.chdir(session.scratch)
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    return {}, []
