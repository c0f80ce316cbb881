"""Operations that do no harm: they run unconfined too."""

import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from payload_registry import harmless


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


@harmless
def report(session, request, arrays):
    for number in range(3):
        session.progress("step", number=number)
    return {}, []
