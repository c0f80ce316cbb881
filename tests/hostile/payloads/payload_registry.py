"""The payloads' operations by name, and how they tell what a try met. On the child's side: no project import."""

import ctypes
import errno

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


def os_error():
    raise OSError(ctypes.get_errno(), "libc")
