"""`python -m benchmarks.gpu_check`: all that only a GPU can tell of the kernel library, in at most eight minutes.

Every kernel against its reference, its configurations timed beside the roofline, four models end to end (eager,
torch.compile, ours), and what was predicted ahead of time beside what ran. Saved after every step; the same call goes
on where it was cut. Needs torch and triton; the models need pydantic too. No network.

    --interpreter    no GPU: the same code under Triton's interpreter on a CPU, for a few shapes; measures nothing
    predict          writes anew what is predicted of the four models (needs Fuseworks whole, no GPU)

Exit codes: 0 done, 1 a kernel or model is wrong, 3 a step failed (the machine's or our fault), 64 usage, 69 no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu_check import plan, record, running
from benchmarks.gpu_check.comparing import compared
from benchmarks.gpu_check.summary import markdown
from optimizer.errors import EXIT_DONE, EXIT_OURS, EXIT_USAGE

EXIT_WRONG, EXIT_NO_GPU = 1, 69
KEPT = record.ROOT / "kernels" / "measured"
DRY = record.ROOT / "out" / "gpu-check"
LEAST_S = 5.0  # a step is not begun with less


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__)
    parser.add_argument("verb", nargs="?", choices=["check", "predict"], default="check")
    parser.add_argument("--interpreter", action="store_true", help="without a GPU, to hold the script together")
    parser.add_argument("--out", type=Path, help="the file to write (default: kernels/measured/DEVICE.json)")
    parser.add_argument("--seconds", type=float, default=plan.BUDGET_S, help="time for all of it (default: 480)")
    parser.add_argument("--kernel", action="append", help="only this one; may be repeated")
    parser.add_argument("--anew", action="store_true", help="do again what the file says is done")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else EXIT_DONE
    if options.verb == "predict":
        from benchmarks.gpu_check.predicting import write_predictions

        return write_predictions()
    return _check(options)


def _check(options: argparse.Namespace) -> int:
    began = time.monotonic()
    try:
        found = running.ask(interpreter=options.interpreter)
    except running.ChildFailed as error:
        print(f"Nothing could be checked:\n{error}", file=sys.stderr)
        return EXIT_OURS
    if "none" in found:
        print(
            f"There is no GPU here: {found['none']}.\nNothing was checked. On a machine with one call the same again; "
            "here `make gpu-check INTERPRETER=1` runs the same code under Triton's interpreter.",
            file=sys.stderr,
        )
        return EXIT_NO_GPU
    kernels = found["kernels"]
    unknown = set(options.kernel or []) - set(kernels)
    if unknown:
        print(f"There is no kernel called {', '.join(sorted(unknown))}.", file=sys.stderr)
        return EXIT_USAGE
    chosen = [name for name in kernels if not options.kernel or name in options.kernel]
    kept = _open(options, found["place"])
    _run(kept, plan.phases(chosen, dry=options.interpreter), began, options)
    kept.head["predicted"] = compared(kept.steps, found["place"])
    kept.save()
    page = markdown(kept.document())
    kept.path.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)
    statuses = {step["status"] for step in kept.steps.values()}
    return EXIT_WRONG if "wrong" in statuses else EXIT_OURS if "failed" in statuses else EXIT_DONE


def _open(options: argparse.Namespace, place: dict[str, Any]) -> record.Record:
    mode = "interpreter" if options.interpreter else "gpu"
    folder = DRY if options.interpreter else KEPT
    name = re.sub(r"[^A-Za-z0-9]+", "-", "interpreter" if options.interpreter else place["device"]).strip("-")
    head = {"mode": mode, "date": datetime.now(UTC).date().isoformat(), "source": record.source(), "place": place}
    kept = record.Record.open(options.out or folder / f"{name}.json", head, anew=options.anew)
    print(f"{place['device']} ({place['target']}), torch {place['torch']}, triton {place['triton']}: {kept.path}")
    if kept.anew is not None:
        print(f"The file's steps are done anew: {kept.anew}.")
    elif kept.steps:
        print(f"{len(kept.steps)} steps are in the file already.")
    return kept


def _run(kept: record.Record, phases: list[plan.Phase], began: float, options: argparse.Namespace) -> None:
    end = began + options.seconds
    processors = len(os.sched_getaffinity(0))
    for phase in phases:
        _phase(kept, phase, min(end, began + phase.until * options.seconds), processors, options)
    for phase in phases:  # what did not fit, in the time that others left
        if end - time.monotonic() > 2 * LEAST_S:
            _phase(kept, phase, end, processors, options)
    for phase in phases:
        for step in phase.steps:
            if step not in kept.steps:
                kept.told(step, {"status": "left_out", "reason": f"no time was left of {options.seconds:g} s"})


def _phase(kept: record.Record, phase: plan.Phase, until: float, processors: int, options: argparse.Namespace) -> None:
    steps = kept.open_steps(list(phase.steps))
    if not steps or until - time.monotonic() < LEAST_S:
        return
    print(f"==> {phase.title}: {len(steps)} steps, at most {until - time.monotonic():.0f} s", flush=True)

    def tell(step: str, outcome: dict[str, Any]) -> None:
        kept.told(step, outcome)
        reason = f": {outcome['reason'].splitlines()[0][:200]}" if outcome.get("reason") else ""
        print(f"  {outcome['status']:8} {step}{reason}", flush=True)

    workers = plan.workers_for(phase, processors)
    running.take(steps, tell, workers=workers, until=until, interpreter=options.interpreter)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("Cut. What is done stays: call the same again to go on.", file=sys.stderr)
        sys.exit(130)
    except json.JSONDecodeError as error:
        print(f"The file cannot be read: {error}. Move it away, or name another with --out.", file=sys.stderr)
        sys.exit(EXIT_OURS)
