"""Reaches out: sockets, other processes, other files, more rights."""

import ctypes
import os
import socket
import subprocess

from payload_registry import libc, operation, os_error, syscall, tried


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
    for entry in processes_seen():
        if entry.isdigit() and int(entry) != os.getpid():
            for name in ("environ", "cmdline", "maps", "root"):
                found[f"/proc/{entry}/{name}"] = tried(peek, f"/proc/{entry}/{name}")
    found["stranger"] = tried(peek, f"/proc/{request['pid']}/cmdline")
    return {"found": found, "environment": dict(os.environ)}, []


def processes_seen():
    try:
        return os.listdir("/proc")
    except PermissionError:
        return []


def touch(path):
    open(path, "ab").close()


def peek(path):
    if os.path.isdir(path):
        return os.listdir(path)
    with open(path, "rb") as file:
        return file.read(4096).decode(errors="replace")


@operation
def write_around(session, request, arrays):
    found = {}
    for path in request["files"]:
        found[f"append {path}"] = tried(touch, path)
        found[f"truncate {path}"] = tried(os.truncate, path, 0)
        found[f"open-truncate {path}"] = tried(os.open, path, os.O_RDONLY | os.O_TRUNC)
        found[f"unlink {path}"] = tried(os.unlink, path)
        found[f"chmod {path}"] = tried(os.chmod, path, 0o777)
        found[f"utime {path}"] = tried(os.utime, path)
        found[f"hard link {path}"] = tried(os.link, path, session.scratch / "hard")
    for folder in request["folders"]:
        found[f"create {folder}"] = tried(touch, os.path.join(folder, "evil"))
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
