"""The system calls that a child may not make, as BPF programs. Everything else is allowed.

A deny list by name (libseccomp), then a second program that answers ENOSYS to every call newer than the list knows.
"""

from __future__ import annotations

import errno
import os
import struct
import tempfile
from typing import Any

# Calls below are the same on every architecture from 424 on, so that newer ones can be named by number.
PROCESS_MADVISE, MOUNT_SETATTR, QUOTACTL_FD, MEMFD_SECRET, PROCESS_MRELEASE = 440, 442, 443, 447, 448
FIRST_UNKNOWN = 451

OTHER_PROCESSES = "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd migrate_pages move_pages mbind"
KERNEL = (
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key "
    "kexec_load kexec_file_load init_module finit_module delete_module reboot syslog acct swapon swapoff "
    "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname personality vhangup lookup_dcookie "
    "fanotify_init fanotify_mark vmsplice"
)
MOUNTS = (
    "mount umount2 pivot_root chroot unshare setns move_mount fsopen fsconfig fsmount fspick open_tree quotactl "
    "open_by_handle_at name_to_handle_at"
)
# Memory that no process maps is nobody's RSS, and System V's outlives its maker.
UNSEEN_MEMORY = "memfd_create shmget shmat shmctl msgget semget mq_open"
SIGNALS = "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"
# Landlock leaves these alone, and the child shares its uid and its view of the files with other processes.
ATTRIBUTES = (
    "chmod fchmod fchmodat chown fchown lchown fchownat utime utimes utimensat futimesat setxattr lsetxattr "
    "fsetxattr removexattr lremovexattr fremovexattr inotify_init inotify_init1 inotify_add_watch"
)
PRIORITIES = "setpriority ioprio_set"
BY_PID = "sched_setaffinity sched_setscheduler sched_setparam sched_setattr"
NAMESPACE_FLAGS = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
F_SETSIG, F_SETOWN, F_SETOWN_EX = 10, 8, 15
FAMILIES = 64
# 32-bit words: the load of the call's number, "is it at least FIRST_UNKNOWN", and the two answers
_LOAD, _AT_LEAST, _RETURN = 0x20, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def newer_calls_program() -> bytes:
    return b"".join(
        struct.pack("<HBBI", code, if_true, if_false, value)
        for code, if_true, if_false, value in (
            (_LOAD, 0, 0, 0),
            (_AT_LEAST, 0, 1, FIRST_UNKNOWN),
            (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
            (_RETURN, 0, 0, _ALLOW),
        )
    )


def programs(*, shares_host: bool, shares_uid: bool, may_signal: bool) -> list[bytes]:
    """`shares_host`: no namespaces (Landlock). `shares_uid`: other processes have its uid. `may_signal`: signals
    cannot leave the sandbox anyway. Raises RuntimeError where libseccomp is missing."""
    try:
        import pyseccomp
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"libseccomp cannot be used: {error}") from error
    filter_ = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    _add_common(pyseccomp, filter_)
    if shares_host and shares_uid:
        _add_shared(pyseccomp, filter_, may_signal)
    return [_export(filter_), newer_calls_program()]


def _add_common(pyseccomp: Any, filter_: Any) -> None:
    denied, missing = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(errno.ENOSYS)
    for name in f"{OTHER_PROCESSES} {KERNEL} {MOUNTS} {UNSEEN_MEMORY}".split():
        filter_.add_rule(denied, name)
    for number in (PROCESS_MADVISE, MOUNT_SETATTR, QUOTACTL_FD, MEMFD_SECRET, PROCESS_MRELEASE):
        filter_.add_rule(denied, number)
    filter_.add_rule(missing, "clone3")  # its flags lie behind a pointer; without it glibc uses clone
    for flag in NAMESPACE_FLAGS:
        filter_.add_rule(denied, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    no_family = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
    filter_.add_rule(no_family, "socket")
    filter_.add_rule(no_family, "socketpair")
    for request in (TIOCSTI, TIOCLINUX):
        filter_.add_rule(denied, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    filter_.add_rule(denied, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))


def _add_shared(pyseccomp: Any, filter_: Any, may_signal: bool) -> None:
    denied = pyseccomp.ERRNO(errno.EPERM)
    for name in f"{ATTRIBUTES} {PRIORITIES}".split():
        filter_.add_rule(denied, name)
    for name in BY_PID.split():
        filter_.add_rule(denied, name, pyseccomp.Arg(0, pyseccomp.NE, 0))
    if may_signal:
        return
    for name in SIGNALS.split():
        filter_.add_rule(denied, name)
    for command in (F_SETSIG, F_SETOWN, F_SETOWN_EX):
        filter_.add_rule(denied, "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, command))
    for request in (FIOSETOWN, SIOCSPGRP):
        filter_.add_rule(denied, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))


def _export(filter_: Any) -> bytes:
    with tempfile.TemporaryFile() as file:
        filter_.export_bpf(file)
        file.flush()
        return os.pread(file.fileno(), 1 << 20, 0)
