"""`python -m kernels [--json]`: the library, as a list to read or as JSON.

Of each kernel: name, formula, dtypes, targets, the spellings that it matches, the configurations to choose from, its
cost, and its resources as compiled ahead of time. Imports torch, never triton.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from kernels import KERNELS
from kernels.describing import described, devices

FORMAT = 1


def library() -> dict[str, Any]:
    return {"format": FORMAT, "devices": devices(), "kernels": [described(kernel) for kernel in KERNELS]}


def lines(document: dict[str, Any]) -> list[str]:
    """One paragraph for each kernel."""
    found = []
    for kernel in document["kernels"]:
        title = kernel["formula"].partition("\n\n")[0].replace("\n", " ")
        found.append(f"{kernel['name']}: {title}")
        found.append(f"  matches: {'; '.join(kernel['patterns']) or 'nothing, it is called by name'}")
        found.append(f"  dtypes: {', '.join(kernel['dtypes'])}; configurations: {len(kernel['configurations'])}")
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    document = library()
    print(json.dumps(document, indent=2) if parser.parse_args(arguments).json else "\n".join(lines(document)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
