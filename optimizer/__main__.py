"""`python -m optimizer`: the coordinator as a program. Verbs: run, diagnose, schema, recipe, prepare, doctor,
kernels, manifest.

Exit codes: 0 done, 3 our or the machine's fault, 4 the model's (or the recipe's) fault, 64 usage.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from optimizer.errors import EXIT_DONE, EXIT_OF_STATUS, EXIT_OURS, EXIT_USAGE, EXIT_USER
from optimizer.result import Event, Result
from optimizer.spec import RunSpec, Workload


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m optimizer", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="work one spec")
    run.add_argument("spec", help="path of the spec (JSON)")
    run.add_argument("--events-fd", type=int, help="descriptor that gets one JSON event a line")
    diagnose = verbs.add_parser("diagnose", help="say what holds a model, or the job of these traces, back")
    diagnose.add_argument("files", nargs="+")
    diagnose.add_argument(
        "--against", action="append", default=[], help="a trace to compare with; again for more ranks"
    )
    diagnose.add_argument("--json", action="store_true", help="the same as --format json")
    diagnose.add_argument("--format", choices=["text", "json", "sarif", "markdown"], default="text")
    diagnose.add_argument("--trace", metavar="FILE", help="of a model: write one call as a trace for ui.perfetto.dev")
    diagnose.add_argument("--trusted", action="store_true", help="without the sandbox")
    schema = verbs.add_parser("schema", help="print a JSON schema")
    schema.add_argument("name", choices=["result", "event", "spec", "workload", "recipe", "diagnosis"])
    recipe = verbs.add_parser("recipe", help="look at a recipe file")
    recipe.add_argument("action", choices=["check", "digest", "show"])
    recipe.add_argument("file")
    verbs.add_parser("prepare", help="seed what this machine needs once: the compilers' cache (about a minute)")
    doctor = verbs.add_parser("doctor", help="say what this machine lacks")
    doctor.add_argument("--json", action="store_true")
    library = verbs.add_parser("kernels", help="list the library of fused operations")
    library.add_argument("--json", action="store_true")
    manifest = verbs.add_parser(
        "manifest", help="print what this installation can do: passes, kernels, backends, devices"
    )
    manifest.add_argument("--target", default="cpu", help="cpu, cuda:sm_NN or rocm:gfxNNN")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else EXIT_DONE
    handlers = {
        "run": _run,
        "diagnose": _diagnose,
        "schema": _schema,
        "recipe": _recipe,
        "prepare": _prepare,
        "doctor": _doctor,
        "kernels": _kernels,
        "manifest": _manifest,
    }
    return handlers[options.verb](options)


def _run(options: argparse.Namespace) -> int:
    from optimizer.coordinator.events import descriptor_sink
    from optimizer.coordinator.run import execute

    try:
        spec = RunSpec.model_validate_json(Path(options.spec).read_text())
    except (OSError, ValidationError) as error:
        print(f"run:usage:spec: {error}", file=sys.stderr)
        return EXIT_USAGE
    # A polite stop unwinds the stack, so that children are killed and the partial answer is written.
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    sink = descriptor_sink(options.events_fd) if options.events_fd is not None else _ignore
    try:
        return EXIT_OF_STATUS[execute(spec, sink).status]
    except KeyboardInterrupt:
        return 130


def _ignore(event: Event) -> None:
    """Without a descriptor nobody listens."""


def _diagnose(options: argparse.Namespace) -> int:
    from optimizer.coordinator.diagnose import diagnose
    from optimizer.diagnosing.exporting import export
    from optimizer.profiling import perfetto
    from optimizer.reporting.diagnosis_text import lines

    files, against = ([Path(name) for name in names] for names in (options.files, options.against))
    form = "json" if options.json else options.format
    try:
        answer = diagnose(files, against=against, trusted=options.trusted, timeline=options.trace is not None)
    except KeyboardInterrupt:
        return 130
    if options.trace is not None and answer.profile is not None and answer.profile.timeline:
        Path(options.trace).write_text(perfetto.write(answer.profile, answer.of[0]), encoding="utf-8")
        answer.profile.timeline = []  # it is in the file
    if form != "text":
        print(export(answer, form, folder=_folder(files)))
    if answer.problem is not None:
        print(f"{answer.problem.message} ({answer.problem.place or answer.problem.id})", file=sys.stderr)
        print(answer.problem.remedy, file=sys.stderr)
        if answer.findings and form == "text":
            print("\n".join(lines(answer)))
        return {"user": EXIT_USER, "usage": EXIT_USAGE}.get(answer.problem.side, EXIT_OURS)
    if form == "text":
        print("\n".join(lines(answer)))
    return EXIT_DONE


def _folder(files: list[Path]) -> str:
    """Where one file lies below the working folder, which a pipeline's is the repository's root; else unknown."""
    parent = files[0].parent
    return "" if len(files) > 1 or parent.is_absolute() or ".." in parent.parts else parent.as_posix()


def _schema(options: argparse.Namespace) -> int:
    print(json.dumps(json_schema(options.name), indent=2))
    return EXIT_DONE


def json_schema(name: str) -> dict[str, Any]:
    if name == "recipe":
        from optimizer.recipe import json_schema as recipe_schema

        document: dict[str, Any] = recipe_schema()
        return document
    if name == "diagnosis":
        from optimizer.diagnosing.diagnosis import Diagnosis

        return Diagnosis.model_json_schema()
    models: dict[str, type[BaseModel]] = {"result": Result, "event": Event, "spec": RunSpec, "workload": Workload}
    return models[name].model_json_schema(by_alias=True)


def _recipe(options: argparse.Namespace) -> int:
    from optimizer.errors import FuseworksError
    from optimizer.recipe import digest, dump, load_recipe

    try:
        recipe = load_recipe(Path(options.file))
    except FuseworksError as error:
        print(f"{error}\n{error.remedy}", file=sys.stderr)
        return EXIT_USER
    print({"check": lambda: "valid", "digest": lambda: digest(recipe), "show": lambda: dump(recipe)}[options.action]())
    return EXIT_DONE


def _prepare(options: argparse.Namespace) -> int:
    from optimizer.compiling.toolchain import toolchain_cache
    from optimizer.errors import FuseworksError
    from optimizer.sandbox import start

    try:
        cache = toolchain_cache(start)
    except FuseworksError as error:
        print(f"{error}\n{error.remedy}", file=sys.stderr)
        return EXIT_OURS
    if cache is None:
        print("No C++ compiler: Inductor and AOTInductor will be left out.")
    else:
        how = "was there already" if cache.seeded_s is None else f"made in {cache.seeded_s:.0f} s"
        print(f"Compile cache of this machine: {cache.size_bytes >> 20} MiB, {how}.")
    return EXIT_DONE


def _doctor(options: argparse.Namespace) -> int:
    from optimizer.doctor import main as doctor

    return doctor(["--json"] if options.json else [])


def _kernels(options: argparse.Namespace) -> int:
    """In a process of its own: kernels import torch, which this one never does."""
    answer = subprocess.run([sys.executable, "-m", "kernels", *(["--json"] if options.json else [])])
    return EXIT_DONE if answer.returncode == 0 else EXIT_OURS


def _manifest(options: argparse.Namespace) -> int:
    """In a process of its own: passes and kernels import torch, which this one never does."""
    answer = subprocess.run([sys.executable, "-m", "optimizer.manifest", options.target])
    return EXIT_DONE if answer.returncode == 0 else EXIT_OURS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
