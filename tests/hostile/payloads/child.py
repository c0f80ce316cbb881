"""What a hostile model may try, one operation each. `attempt` reports what each try met; the others never come back."""

import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

MIB = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
OPERATIONS = {}


def harmless(function):
    """Runs unconfined too."""
    OPERATIONS[function.__name__] = function
    return function


def operation(function):
    """Refuses to run where nothing holds it: `kill -1` outside of a sandbox ends every process of the user."""

    def guarded(session, request, arrays):
        with open("/proc/self/status") as file:
            confined = any(line.split() == ["Seccomp:", "2"] for line in file)
        if not confined:
            raise RuntimeError("this payload runs in a sandbox only")
        return function(session, request, arrays)

    OPERATIONS[function.__name__] = guarded
    return function


def tried(function, *arguments):
    """What came out: `done: ...`, or the name of the error that denied it."""
    try:
        return f"done: {function(*arguments)!r}"
    except BaseException as error:
        code = getattr(error, "errno", None)
        return errno.errorcode.get(code, type(error).__name__) if code else type(error).__name__


def syscall(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result


@harmless
def hello(session, request, arrays):
    return {"hello": request.get("name"), "uid": os.getuid(), "pid": os.getpid()}, arrays


@harmless
def torch_and_compiler(session, request, arrays):
    import torch

    product = torch.ones(3, 4) @ torch.full((4, 5), 2.0)
    source = session.scratch / "f.cpp"
    source.write_text('#include <cmath>\nextern "C" double f(double x) { return std::sqrt(x) + 1; }\n')
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", "f.so", "f.cpp"], cwd=session.scratch, check=True)
    library = ctypes.CDLL(str(session.scratch / "f.so"))
    library.f.restype, library.f.argtypes = ctypes.c_double, [ctypes.c_double]
    return {"f": library.f(9.0)}, [product.numpy()]


# --- never coming back -------------------------------------------------------------------------------------------


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


# --- memory ------------------------------------------------------------------------------------------------------


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


def os_error():
    raise OSError(ctypes.get_errno(), "libc")


# --- processes ---------------------------------------------------------------------------------------------------


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
def kill_everybody(session, request, arrays):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    found = {
        "group": tried(os.killpg, os.getpgid(0), signal.SIGTERM),
        "all": tried(os.kill, -1, signal.SIGTERM),
        "stranger": tried(os.kill, request["pid"], signal.SIGKILL),
        "stranger's limits": tried(__import__("resource").prlimit, request["pid"], 0, (1, 1)),
        "stranger's cores": tried(os.sched_setaffinity, request["pid"], {0}),
        "stranger's priority": tried(os.setpriority, os.PRIO_PROCESS, request["pid"], 19),
    }
    return {"found": found}, []


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


# --- disk and output ---------------------------------------------------------------------------------------------


@operation
def fill_disk(session, request, arrays):
    for number in range(10_000):
        (session.scratch / f"f{number}").write_bytes(b"x" * (8 * MIB))
    return {}, []


@operation
def fill_disk_unseen(session, request, arrays):
    kept = []
    for number in range(10_000):
        file = open(session.scratch / f"f{number}", "wb")
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


# --- reach -------------------------------------------------------------------------------------------------------


@operation
def sockets(session, request, arrays):
    families = {name: getattr(socket, name) for name in dir(socket) if name.startswith("AF_")}
    found = {name: tried(socket.socket, family, socket.SOCK_STREAM) for name, family in families.items()}
    found |= {f"{name} dgram": tried(socket.socket, family, socket.SOCK_DGRAM) for name, family in families.items()}
    found["raw"] = tried(socket.socket, socket.AF_INET, socket.SOCK_RAW)
    found["pair"] = tried(socket.socketpair)
    return {"found": found}, []


@operation
def read_around(session, request, arrays):
    found = {path: tried(peek, path) for path in request["paths"]}
    for entry in os.listdir("/proc") if os.access("/proc", os.R_OK) else []:
        if entry.isdigit() and int(entry) != os.getpid():
            for name in ("environ", "cmdline", "maps", "root"):
                found[f"/proc/{entry}/{name}"] = tried(peek, f"/proc/{entry}/{name}")
    found["stranger"] = tried(peek, f"/proc/{request['pid']}/cmdline")
    return {"found": {k: v for k, v in found.items()}, "environment": dict(os.environ)}, []


def peek(path):
    if os.path.isdir(path):
        return os.listdir(path)
    with open(path, "rb") as file:
        return file.read(4096).decode(errors="replace")


@operation
def write_around(session, request, arrays):
    found = {}
    for path in request["files"]:
        found[f"append {path}"] = tried(lambda: open(path, "ab").close())
        found[f"truncate {path}"] = tried(os.truncate, path, 0)
        found[f"open-truncate {path}"] = tried(os.open, path, os.O_RDONLY | os.O_TRUNC)
        found[f"unlink {path}"] = tried(os.unlink, path)
        found[f"chmod {path}"] = tried(os.chmod, path, 0o777)
        found[f"utime {path}"] = tried(os.utime, path)
        found[f"hard link {path}"] = tried(os.link, path, session.scratch / "hard")
    for folder in request["folders"]:
        found[f"create {folder}"] = tried(lambda: open(os.path.join(folder, "evil"), "w").close())
        found[f"mkdir {folder}"] = tried(os.mkdir, os.path.join(folder, "evil.d"))
        found[f"link {folder}"] = tried(os.symlink, "/etc/passwd", os.path.join(folder, "evil.l"))
    return {"found": found}, []


@operation
def privileges(session, request, arrays):
    """Each must be denied: more rights, other processes' memory, new namespaces, the kernel's larger doors."""
    machine = os.uname().machine
    pid = request["pid"]
    ptrace = {"x86_64": 101, "aarch64": 117}[machine]
    unshare = {"x86_64": 272, "aarch64": 97}[machine]
    found = {
        "setuid": tried(os.setresuid, 0, 0, 0) if os.getuid() else "already root",
        "chroot": tried(os.chroot, "/"),
        "unshare user": tried(syscall, unshare, 0x10000000),
        "unshare net": tried(syscall, unshare, 0x40000000),
        "ptrace": tried(syscall, ptrace, 16, pid, 0, 0),
        "io_uring": tried(syscall, 425, 8, ctypes.create_string_buffer(256)),
        "mount": tried(mount),
        "fsopen": tried(syscall, 430, b"tmpfs", 0),
        "pidfd_getfd": tried(syscall, 438, 0, 0, 0),
        "bpf": tried(syscall, {"x86_64": 321, "aarch64": 280}[machine], 0, 0, 0),
        "userfaultfd": tried(syscall, {"x86_64": 323, "aarch64": 282}[machine], 0),
        "perf": tried(syscall, {"x86_64": 298, "aarch64": 241}[machine], 0, 0, 0, 0, 0),
        "keyctl": tried(syscall, {"x86_64": 250, "aarch64": 219}[machine], 0, -3, 1),
        "newer than known": tried(syscall, 451, 0, 0, 0, 0),
        "clone3": tried(syscall, 435, 0, 0),
        "mknod": tried(os.mknod, str(session.scratch / "disk"), 0o060600, os.makedev(8, 0)),
        "setuid program": tried(become_root),
    }
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    wanted = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Groups", "Uid")
    return {"found": found, "status": {name: status[name] for name in wanted}}, []


def become_root():
    return subprocess.run(["su", "-c", "id"], check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout


def mount():
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0:
        os_error()


# --- the wire ----------------------------------------------------------------------------------------------------


def frame(header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"FW01" + struct.pack("<I", len(text)) + text


WIRE = {
    "garbage": b"\x00garbage that is no frame at all",
    "huge header": b"FW01" + struct.pack("<I", 0xFFFFFFFF),
    "not json": frame(b"{nope"),
    "not an object": frame(b"[1, 2]"),
    "nan": frame(b'{"event": "done", "x": NaN}'),
    "infinity": frame(b'{"event": "done", "x": -Infinity}'),
    "half a surrogate": frame(b'{"event": "done", "x": "\\ud800"}'),
    "deep": frame(b'{"event": "done", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "long number": frame(b'{"event": "done", "x": ' + b"9" * 100_000 + b"}"),
    "unknown event": frame({"event": "pwned"}),
    "no event": frame({"x": 1}),
    "event of wrong kind": frame({"event": ["done"]}),
    "ready again": frame({"event": "ready"}),
    "pickled dtype": frame({"event": "done", "buffers": [["object", [1]]]}) + b"x" * 8,
    "negative shape": frame({"event": "done", "buffers": [["int8", [-1]]]}),
    "true as a dim": frame({"event": "done", "buffers": [["int8", [True]]]}),
    "enormous shape": frame({"event": "done", "buffers": [["int8", [1 << 39, 1 << 39]]]}),
    "empty but enormous": frame({"event": "done", "buffers": [["int8", [0, 1 << 39, 1 << 39]]]}),
    "too many bytes": frame({"event": "done", "buffers": [["int8", [1 << 31]]] * 3}),
    "dtype of wrong kind": frame({"event": "done", "buffers": [[["int8"], [1]]]}),
    "truth that is 7": frame({"event": "done", "buffers": [["bool", [1]]]}) + b"\x07",
    "file nobody wants": frame({"event": "file", "name": "a", "size": 1}) + b"x",
    "progress of wrong kind": frame({"event": "progress", "message": 5, "data": {}}),
    "error of wrong kind": frame({"event": "done", "error": "no"}),
    "error that blames us": frame({"event": "done", "error": {"id": "run:ours:machine"}}),
    "error with a strange context": frame({"event": "done", "error": {"id": "child:user:exception", "context": [1]}}),
}
FILES = {
    "parent": {"name": "../evil", "size": 1},
    "slash": {"name": "a/b", "size": 1},
    "absolute": {"name": "/tmp/evil", "size": 1},
    "dots": {"name": "..", "size": 1},
    "hidden": {"name": ".bashrc", "size": 1},
    "empty": {"name": "", "size": 1},
    "zero byte": {"name": "a\0b", "size": 1},
    "newline": {"name": "a\n", "size": 1},
    "no text": {"name": 7, "size": 1},
    "long": {"name": "a" * 300, "size": 1},
    "negative": {"name": "a", "size": -1},
    "fraction": {"name": "a", "size": 1.5},
    "truth": {"name": "a", "size": True},
    "too large": {"name": "a", "size": 1 << 50},
    "no size": {"name": "a"},
}


@operation
def speak(session, request, arrays):
    """Writes what is no answer, then waits to be judged."""
    os.write(session.fd, WIRE[request["what"]])
    time.sleep(60)


@operation
def send_bad_file(session, request, arrays):
    os.write(session.fd, frame({"event": "file", **FILES[request["what"]]}) + b"x")
    time.sleep(60)


@operation
def send_twice(session, request, arrays):
    path = session.scratch / "f"
    path.write_bytes(b"x")
    session.send_file("same", path)
    session.send_file("same", path)
    return {}, []


@operation
def send_many(session, request, arrays):
    path = session.scratch / "f"
    path.write_bytes(b"x" * request["size"])
    for number in range(request["count"]):
        session.send_file(f"f{number}", path)
    return {}, []


@operation
def trickle(session, request, arrays):
    """A frame that never ends, a byte at a time: each byte is in time, the whole never is."""
    os.write(session.fd, b"FW01" + struct.pack("<I", 1 << 20))
    while True:
        os.write(session.fd, b" ")
        time.sleep(0.02)


@operation
def promise_and_stop(session, request, arrays):
    os.write(session.fd, frame({"event": "done", "buffers": [["int8", [1 << 30]]]}) + b"x")
    time.sleep(60)


@operation
def progress_for_ever(session, request, arrays):
    while True:
        session.progress("still at it")


@operation
def answer_twice(session, request, arrays):
    os.write(session.fd, frame({"event": "done", "stolen": True}))
    return {}, []


@operation
def close_wire(session, request, arrays):
    if request["linger"]:
        os.close(session.fd)
        time.sleep(60)
    if os.fork() == 0:
        time.sleep(60)  # keeps the wire open behind the dead child's back
    os._exit(3)


@operation
def never_read_again(session, request, arrays):
    os.write(session.fd, frame({"event": "done"}))
    time.sleep(60)


@harmless
def raise_it(session, request, arrays):
    kinds = {
        "plain": ValueError("no such luck"),
        "memory": MemoryError(),
        "torch's memory": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 1 bytes"),
        "disk": OSError(errno.ENOSPC, "full"),
        "exit": SystemExit(0),
        "unprintable": Unprintable(),
    }
    raise kinds[request["kind"]]


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


@harmless
def not_json(session, request, arrays):
    return {"value": float("nan")}, []


@harmless
def echo(session, request, arrays):
    return {"fields": {k: v for k, v in request.items() if k != "op"}}, arrays


@harmless
def tick(session, request, arrays):
    """Counts in a thread, so that a test sees whether it was stopped."""
    if "ticks" not in session.state:
        session.state["ticks"] = [0]
        threading.Thread(target=count, args=(session.state["ticks"],), daemon=True).start()
    return {"ticks": session.state["ticks"][0]}, []


def count(ticks):
    while True:
        ticks[0] += 1
        time.sleep(0.001)


@harmless
def say(session, request, arrays):
    print(request["text"], file=sys.stderr)
    return {}, []


@harmless
def where(session, request, arrays):
    paths = {"cwd": os.getcwd(), "executable": sys.executable, "path": sys.path, "home": str(Path.home())}
    return {**paths, "environment": dict(os.environ)}, []
