"""`python -m benchmarks.gpu_check.child`: takes steps on its command line, prints a JSON line before and after each.

A process of its own, since a wrong index or a compiler's crash ends the process and with it a CUDA context. What torch
or Triton print goes to standard error: standard output carries lines alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from typing import Any, TextIO

DRY_MODELS = ("din",)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check.child")
    parser.add_argument("--interpreter", action="store_true")
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("step", nargs="*")
    options = parser.parse_args(arguments)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    until = time.monotonic() + options.seconds
    if not options.step:
        _say(out, _plan(options.interpreter))
        return 0
    steps = _Steps(options.interpreter)
    for step in options.step:
        if time.monotonic() > until:
            break
        _say(out, {"begun": step})
        began = time.monotonic()
        try:
            outcome = steps.take(step, until)
        except Exception as error:  # of one step: the next is tried, unless the device is lost
            traceback.print_exc()
            outcome = {"status": "failed", "reason": f"{type(error).__name__}: {error}"[:1000]}
            if "CUDA error" in str(error) or "HIP error" in str(error):
                _say(out, {"done": step, "outcome": outcome})
                return 1
        outcome["seconds"] = round(time.monotonic() - began, 2)
        _say(out, {"done": step, "outcome": outcome})
    return 0


def _say(out: TextIO, line: dict[str, Any]) -> None:
    out.write(json.dumps(line) + "\n")
    out.flush()


def _plan(interpreter: bool) -> dict[str, Any]:
    """Where this is, and the kernels, those that move least first."""
    from benchmarks.gpu_check.place import place, why_none
    from kernels import KERNELS

    reason = None if interpreter else why_none()
    if reason is not None:
        return {"none": reason}
    sizes = {}
    for kernel in KERNELS:
        sizes[kernel.name] = kernel.cost(*kernel.typical(next(iter(kernel.tolerances))).args).bytes
    return {"place": place(interpreter=interpreter), "kernels": sorted(sizes, key=lambda name: sizes[name])}


class _Steps:
    """What steps share: the device, its rates, its clock."""

    def __init__(self, interpreter: bool) -> None:
        from benchmarks.gpu_check.clock import DeviceClock, WallClock
        from benchmarks.gpu_check.place import DEVICE, roof

        self.interpreter = interpreter
        self.device = "cpu" if interpreter else DEVICE
        self.roof = None if interpreter else roof()
        self.clock = WallClock() if interpreter else DeviceClock()
        if interpreter:
            from kernels import interpreter as corrections

            corrections.install()

    def take(self, step: str, until: float) -> dict[str, Any]:
        from benchmarks.gpu_check import kernel_steps, model_steps
        from kernels import KERNELS

        verb, _, rest = step.partition(" ")
        if verb == "model":
            name, _, precision = rest.partition(" ")
            return model_steps.model_step(name, precision, self.device, self.clock, compiled=not self.interpreter)
        kernel = KERNELS.get(rest)
        if verb == "check":
            return kernel_steps.right(kernel, kernel_steps.first_cases(kernel), self.device, until, operation=True)
        if verb == "edges":
            return kernel_steps.right(kernel, kernel_steps.further_cases(kernel), self.device, until, operation=False)
        if verb == "tune":
            return kernel_steps.tune(kernel, self.device, self.roof, self.clock, until)
        raise ValueError(f"there is no step {step!r}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
