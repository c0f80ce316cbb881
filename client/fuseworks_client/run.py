"""One run from the command line: starts the coordinator, follows its events, and shows or prints what it answers."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fuseworks_client import exits, optimizer
from fuseworks_client.answer import show
from fuseworks_client.problems import show_problem
from fuseworks_client.progress import View, view

MAX_EVENT_BYTES = 4 << 20
TICK_S = 0.12


def run(
    document: dict[str, Any],
    *,
    out: Path | None,
    as_json: bool,
    keep: bool = True,
    shape: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> int:
    """`document` is the spec without `out`. `keep=False`: nothing is left without --out. `shape`: of the result as it
    is printed for --json. Returns the exit code."""
    end_as_interrupted()
    progress = Console(stderr=True)
    kept = keep or out is not None
    with ExitStack() as stack:
        if out is None and not kept:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fuseworks-")))
        folder = out or _default_folder(Path(document["model"]))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "result.json").unlink(missing_ok=True)  # an older run's answer must not pass for this one's
        except OSError as error:
            raise click.BadParameter(f"{folder} cannot be written: {error.strerror}", param_hint="--out") from error
        code = work({**document, "out": str(folder.absolute())}, folder, progress)
        result = read_result(folder)
        if result is None:
            return _no_result(document, folder, code, progress, as_json)
        if as_json:
            click.echo(json.dumps(shape(result), indent=2, ensure_ascii=False))
        else:
            show(result, folder if kept else None, Console())
        if result.get("problem"):
            show_problem(result["problem"], result.get("status"), progress)
        return code if code in (exits.DONE, exits.USER, exits.INTERRUPTED) else exits.OURS


def end_as_interrupted() -> None:
    """From now on, a polite end from outside is taken as Ctrl-C is."""
    signal.signal(signal.SIGTERM, _as_interrupt)


def work(spec: dict[str, Any], folder: Path, console: Console, *, limit_s: float | None = None) -> int:
    """The coordinator's exit code. Interrupted, or at work for more than `limit_s`, it is stopped with all that it
    started."""
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(prefix="fuseworks-spec-") as scratch, open(folder / "log.txt", "wb") as log:
        path = Path(scratch) / "spec.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        process = optimizer.start(["run", str(path), "--events-fd", str(writer)], log=log.fileno(), inherited=writer)
        os.close(writer)
        try:
            with view(console) as shown:
                over = _follow(reader, process, shown, math.inf if limit_s is None else limit_s)
            if over:
                optimizer.stop(process)
                log.write(f"It was ended because it was still at work after {limit_s:.0f} s.".encode())
            return exits.OURS if over else process.wait()
        except KeyboardInterrupt:
            console.print("Interrupted: stopping the run.")
            return exits.INTERRUPTED
        finally:
            optimizer.stop(process)
            os.close(reader)


def _follow(reader: int, process: Any, shown: View, limit_s: float) -> bool:
    """Shows each event until the coordinator is gone. Events are JSON lines. Whether the time was over first."""
    pending = b""
    began = time.monotonic()
    while time.monotonic() - began < limit_s:
        ready, _, _ = select.select([reader], [], [], TICK_S)
        shown.tick()
        if not ready:
            if process.poll() is not None:  # gone, though something still holds the pipe open
                return False
            continue
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            return False
        *lines, pending = (pending + chunk).split(b"\n")
        if len(pending) > MAX_EVENT_BYTES:
            raise click.ClickException("the optimizer sent an event without end")
        for line in lines:
            event = json.loads(line)
            shown.event(event)
    return True


def read_result(folder: Path) -> dict[str, Any] | None:
    """None where the coordinator came to no answer, or left none that can be read."""
    try:
        document: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document


def _no_result(document: dict[str, Any], folder: Path, code: int, console: Console, as_json: bool) -> int:
    """The coordinator never came to an answer: a spec that is not valid, or its own end."""
    if code == exits.INTERRUPTED:
        return code
    problem = no_result_problem(folder, code)
    show_problem(problem, "errored", console)
    if as_json:
        answer = {"purpose": document["purpose"], "status": "errored", "problem": problem}
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    return exits.USAGE if code == exits.USAGE else exits.OURS


def no_result_problem(folder: Path, code: int) -> dict[str, Any]:
    """What the coordinator's exit code and the end of its log say of a run without an answer."""
    log = folder / "log.txt"
    tail = log.read_text(errors="replace")[-4000:].strip() if log.exists() else ""
    usage = code == exits.USAGE
    problem = {
        "id": "client:usage:spec" if usage else "client:ours:no-result",
        "side": "usage" if usage else "ours",
        "message": tail.removeprefix("run:usage:spec: ")
        if usage
        else f"The optimizer ended with code {code} and no result.",
        "remedy": "Correct the named field."
        if usage
        else f"Please report this with {log}; `fuseworks doctor` may help.",
        "detail": None if usage else tail,
    }
    if "No module named optimizer" in tail:
        problem["message"] = "The optimizer is not installed beside this command."
        problem["remedy"] = "Install fuseworks with its dependencies: in a clone, `make setup`."
    return problem


def _default_folder(model: Path) -> Path:
    return Path("fuseworks-out") / f"{model.stem}-{time.strftime('%Y%m%d-%H%M%S')}"


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
