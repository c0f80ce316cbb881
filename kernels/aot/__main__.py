"""`python -m kernels.aot`: compiles the library for GPUs that are not there; writes or checks the kept report.

    report [--all]                   what changed is compiled anew, the rest taken over; --all: everything
    check [--changed] [KERNEL ...]   exit code 1 where a kernel became worse than the report, or is not in it
    build --target T --out DIR [KERNEL ...]   the compiled artifacts, with what a launcher must know

Exit code 3: this machine cannot compile.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import kernels
from kernels.aot.compiler import DoesNotCompile, compile_sources, why_unavailable
from kernels.aot.devices import TARGETS, device_of

PAGE = Path(__file__).with_name("report.md")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels.aot")
    verbs = parser.add_subparsers(dest="verb", required=True)
    write = verbs.add_parser("report")
    write.add_argument("--all", action="store_true")
    check = verbs.add_parser("check")
    check.add_argument("--changed", action="store_true")
    check.add_argument("kernel", nargs="*")
    build = verbs.add_parser("build")
    build.add_argument("--target", required=True, choices=TARGETS)
    build.add_argument("--out", required=True, type=Path)
    build.add_argument("kernel", nargs="*")
    options = parser.parse_args(arguments)
    for target in TARGETS:
        reason = why_unavailable(target)
        if reason is not None:
            print(f"Nothing can be compiled for {target}: {reason}", file=sys.stderr)
            return 3
    kernels.load()
    unknown = set(getattr(options, "kernel", [])) - set(kernels.KERNELS.names())
    if unknown:
        parser.error(f"there is no kernel called {', '.join(sorted(unknown))}")
    return {"report": _report, "check": _check, "build": _build}[options.verb](options)


def _report(options: argparse.Namespace) -> int:
    from kernels.aot.page import exceptions, markdown
    from kernels.aot.report import read, report, write

    document = report(read(), lambda text: print(text, file=sys.stderr), anew=options.all, save=write)
    write(document)
    PAGE.write_text(markdown(document), encoding="utf-8")
    odd = sum(1 for row in document["rows"] for _ in exceptions(row))
    print(f"{len(document['rows'])} rows, {odd} exceptions: kernels/aot/{PAGE.name}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from kernels.aot.check import check
    from kernels.aot.report import read

    kept = read()
    if kept is None:
        print("There is no report to compare with: make aot", file=sys.stderr)
        return 1
    found = list(check(kept, options.kernel or None, changed=options.changed))
    for line in found:
        print(line)
    print(f"{len(found)} regressions" if found else "No kernel became worse.")
    return 1 if found else 0


def _build(options: argparse.Namespace) -> int:
    """A file for each launch, and `kernels.json`: entry point, threads, shared memory, signature, constants."""
    from kernels.aot.report import requests

    options.out.mkdir(parents=True, exist_ok=True)
    suffix = "cubin" if options.target.startswith("cuda:") else "hsaco"
    listed, refused = [], []
    asked = list(requests(options.kernel or None, [options.target]))
    built = compile_sources([request.source for request in asked], device_of(options.target))
    for number, (request, compiled) in enumerate(zip(asked, built, strict=True)):
        if isinstance(compiled, DoesNotCompile):
            refused.append(f"{' '.join(map(str, request.place))}: {str(compiled).splitlines()[0]}")
            continue
        file = f"{number:03d}-{request.kernel}.{suffix}"
        (options.out / file).write_bytes(compiled.binary)
        listed.append(
            {
                "file": file,
                "kernel": request.kernel,
                "configuration": request.configuration,
                "dtype": request.dtype,
                "launch": request.launch,
                "entry": compiled.entry,
                "threads": compiled.warps * request.device.warp_size,
                "shared_bytes": compiled.shared_bytes,
                "signature": dict(request.source.signature),
                "constants": {name: str(value) for name, value in request.source.constants.items()},
                "aligned_to_16": list(request.source.aligned),
            }
        )
    (options.out / "kernels.json").write_text(json.dumps({"target": options.target, "kernels": listed}, indent=1))
    print(f"{len(listed)} artifacts for {options.target}: {options.out}")
    for line in refused:
        print(f"does not compile: {line}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
