"""The engines: each imported in a process of its own, so that a broken one is an answer and not a crash."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.doctor.check import Check, State

IMPORT_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Engine:
    module: str
    without: State
    costs: str


ENGINES = (
    Engine("torch", "fail", "PyTorch uploads cannot be read, and no reference can be computed"),
    Engine("triton", "warn", "the library's kernels cannot be compiled for a GPU or run under the interpreter"),
    Engine("onnx", "warn", "ONNX uploads cannot be read"),
    Engine("onnxruntime", "warn", "the backend onnx_runtime is not tried, and ONNX uploads have no baseline"),
    Engine("openvino", "warn", "the backend openvino is not tried"),
    Engine("torchao", "warn", "torchao is not among the engines that int8 is held against"),
)


def checks() -> Iterator[Check]:
    # Together: each import waits for the disk more than for a core.
    # A home of their own: two of the engines leave identity files in the user's when they are imported.
    with tempfile.TemporaryDirectory(prefix="fuseworks-doctor-") as home:
        started = [(engine, _start(engine.module, home)) for engine in ENGINES]
        yield from [_judge(engine, process) for engine, process in started]


def _start(module: str, home: str) -> subprocess.Popen[str]:
    code = f"import {module}\nprint(getattr({module}, '__version__', 'of unknown version'))"
    environment = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _judge(engine: Engine, process: subprocess.Popen[str]) -> Check:
    try:
        output, errors = process.communicate(timeout=IMPORT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Check(engine.module, engine.without, f"no answer within {IMPORT_TIMEOUT_S:.0f} s", engine.costs)
    if process.returncode == 0:
        return Check(engine.module, "ok", output.strip().splitlines()[-1])
    reason = errors.strip().splitlines()[-1][:200] if errors.strip() else f"exit {process.returncode}"
    remedy = "call `make setup` again; if it stays, remove .venv first"
    return Check(engine.module, engine.without, reason, engine.costs, remedy)
