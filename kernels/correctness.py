"""`python -m kernels.correctness [--all] [KERNEL ...]`: the correctness matrix, kept in `kernels/correctness.json`.

Every kernel × dtype × sample and edge × configuration under Triton's interpreter with its known errors corrected,
against the reference in float64 (`kernels/checking.py`): of each the error of the worst element by what is allowed, or
what is wrong. A kernel whose source is as it was is taken over unless `--all` is said. TRITON_INTERPRET=1 must be set
(`make correctness` does). It shows no races: the interpreter runs programs one after another.

Exit codes: 0 all right, 1 something is wrong, 3 it cannot be run here, 64 usage.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import inspect
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernels import KERNELS
from kernels.checking import cases, check, plain
from kernels.spec import Kernel

FILE = Path(__file__).with_name("correctness.json")
SCHEMA_VERSION = "1.0"
EXIT_RIGHT, EXIT_WRONG, EXIT_CANNOT, EXIT_USAGE = 0, 1, 3, 64
# How a model spells the operation changes no number: what matches graphs is not part of a kernel's identity here.
METHODS = ("reference", "fake", "configurations", "launches", "samples", "edges")
MATCHING = ("kernels.patterns", "kernels.spec")
ALWAYS = ("kernels.checking", "kernels.interpreter", "kernels.inputs")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels.correctness", description=__doc__)
    parser.add_argument("--all", action="store_true", help="what did not change, too")
    parser.add_argument("kernel", nargs="*", help="only these; default: all")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else EXIT_RIGHT
    unknown = set(options.kernel) - set(KERNELS.names())
    if unknown:
        print(f"There is no kernel called {', '.join(sorted(unknown))}.", file=sys.stderr)
        return EXIT_USAGE
    from kernels import interpreter

    try:
        interpreter.install()
    except (ImportError, RuntimeError) as error:
        print(f"Nothing can be checked here: {error}", file=sys.stderr)
        return EXIT_CANNOT
    torch.set_num_threads(1)
    document = read() or {"schema_version": SCHEMA_VERSION, "kernels": {}}
    document["kernels"] = {name: document["kernels"][name] for name in KERNELS.names() if name in document["kernels"]}
    for kernel in KERNELS:
        chosen = kernel.name in options.kernel if options.kernel else True
        if chosen and (options.all or not is_current(kernel, document["kernels"].get(kernel.name))):
            print(f"checking {kernel.name}", file=sys.stderr)
            document["kernels"][kernel.name] = of_kernel(kernel)
            write(document)
    wrong = list(faults(document))
    for line in wrong:
        print(line)
    count = sum(len(row["outcomes"]) for entry in document["kernels"].values() for row in entry["rows"])
    print(f"{count} cases, {len(wrong)} wrong: {FILE.name}")
    return EXIT_WRONG if wrong else EXIT_RIGHT


def of_kernel(kernel: Kernel) -> dict[str, Any]:
    """Its whole matrix, by running it."""
    import triton

    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for case in cases(kernel):
        place = plain(case.dtype), case.sample.name
        row = rows.setdefault(place, {"dtype": place[0], "sample": place[1], "edge": case.edge, "outcomes": {}})
        outcome = check(case)
        row["outcomes"][case.configuration.name] = outcome.fault or round(outcome.error_share, 4)
    return {
        "source": source_of(kernel),
        "date": datetime.now(UTC).date().isoformat(),
        "triton": triton.__version__,
        "torch": torch.__version__.partition("+")[0],
        "rows": list(rows.values()),
    }


def faults(document: dict[str, Any]) -> list[str]:
    return [
        f"{name} {row['dtype']} {row['sample']} ({configuration}): {outcome}"
        for name, entry in document["kernels"].items()
        for row in entry["rows"]
        for configuration, outcome in row["outcomes"].items()
        if isinstance(outcome, str)
    ]


def is_current(kernel: Kernel, entry: dict[str, Any] | None) -> bool:
    """Whether what is kept is of the kernel as it is now."""
    return entry is not None and entry["source"] == source_of(kernel)


def source_of(kernel: Kernel) -> str:
    """Digest of what decides a kernel's numbers: its Triton functions, its methods, and the modules that it uses."""
    home = importlib.import_module(type(kernel).__module__)
    functions = [f for _, f in sorted(vars(home).items()) if inspect.isfunction(f) and f.__module__ == home.__name__]
    parts = [text for text in map(inspect.getsource, functions) if "tl." in text]
    parts += [inspect.getsource(getattr(type(kernel), name)) for name in METHODS]
    parts.append(
        repr(sorted((str(dtype), t) for dtype, t in kernel.tolerances.items())) + str(kernel.integer_tolerance)
    )
    parts += [inspect.getsource(importlib.import_module(name)) for name in _helpers(home)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _helpers(home: ModuleType) -> list[str]:
    """Other modules of this package whose names the kernel's file uses, and those that they use."""
    found: set[str] = set(ALWAYS)
    ahead = [home, *map(importlib.import_module, ALWAYS)]
    while ahead:
        values = list(vars(ahead.pop()).values())
        names = {v.__name__ if isinstance(v, ModuleType) else str(getattr(v, "__module__", "")) for v in values}
        new = {n for n in names if n.startswith("kernels.")} - found - {home.__name__, *MATCHING}
        found |= new
        ahead += map(importlib.import_module, sorted(new))
    return sorted(found)


def read(path: Path = FILE) -> dict[str, Any] | None:
    """None where nothing is kept yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write(document: dict[str, Any], path: Path = FILE) -> None:
    """One row a line, so that a change shows in a diff as what it is."""
    entries = []
    for name, entry in sorted(document["kernels"].items()):
        head = json.dumps({key: value for key, value in entry.items() if key != "rows"})[:-1]
        lines = ",\n".join("   " + json.dumps(row) for row in entry["rows"])
        entries.append(f'  {json.dumps(name)}: {head}, "rows": [\n{lines}\n  ]}}')
    text = f'{{\n "schema_version": {json.dumps(SCHEMA_VERSION)},\n "kernels": {{\n' + ",\n".join(entries) + "\n }\n}\n"
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
