"""`fuseworks doctor`: what this machine lacks, and what that costs. Changes nothing; takes a few seconds.

`fail` means that no run can succeed here, `warn` that something is slower, less or not offered. No torch in this
process: engines are asked in processes of their own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict

from optimizer.doctor import confinement, engines, machine, toolchain
from optimizer.doctor.check import Check

__all__ = ["Check", "examine", "main"]

EXIT_DONE, EXIT_OURS = 0, 3
MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}
GROUPS = (toolchain, confinement, engines, machine)


def examine() -> list[Check]:
    """All checks, in the order in which a reader wants them."""
    return [check for group in GROUPS for check in group.checks()]


def main(arguments: list[str]) -> int:
    """Prints the checks. 0 when a run could succeed here, else 3."""
    parser = argparse.ArgumentParser(prog="fuseworks doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    found = examine()
    ready = all(check.state != "fail" for check in found)
    if options.json:
        print(json.dumps({"ready": ready, "checks": [asdict(check) for check in found]}, indent=2))
    else:
        print("\n".join(lines(found)))
    return EXIT_DONE if ready else EXIT_OURS


def lines(found: Iterable[Check]) -> list[str]:
    """The table; a check that is not ok says what it costs and what mends it."""
    found = list(found)
    width = max(len(check.name) for check in found)
    text = []
    for check in found:
        text.append(f"{MARKS[check.state]}  {check.name:<{width}}  {check.found}")
        if check.state != "ok":
            text.append(f"{'':{width + 8}}costs: {check.costs}")
            if check.remedy:
                text.append(f"{'':{width + 8}}mend:  {check.remedy}")
    counts = {state: sum(check.state == state for check in found) for state in MARKS}
    ready = "A run can succeed here" if not counts["fail"] else "No run can succeed here"
    text.append(f"\n{ready}: {counts['ok']} ok, {counts['warn']} to know, {counts['fail']} in the way.")
    return text
