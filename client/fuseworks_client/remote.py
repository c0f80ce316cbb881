"""Runs on a server: started, followed as a local run is, and shown with the same tables."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fuseworks_client import exits
from fuseworks_client.account import account, retry_s
from fuseworks_client.answer import show
from fuseworks_client.problems import show_problem
from fuseworks_client.progress import view
from fuseworks_client.server import Server, ServerProblem, Unreachable

TERMINAL = frozenset({"succeeded", "failed", "errored", "cancelled", "timed_out"})
WAIT_S = 10  # the server answers earlier when there is something new
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
STDERR = Console(stderr=True)


class Ended(Exception):
    """The command ends with this code; what is to be said was said."""

    def __init__(self, code: int) -> None:
        self.code = code


class Id(click.ParamType):
    """An object of the server: its id, or an address with that in it (the last one counts)."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = UUID.findall(str(value))
        if not found:
            self.fail(f"{value!r} is no id such as 0f8e2c1a-..., nor an address that ends with one", param, ctx)
        return str(found[-1]).lower()


@contextmanager
def server() -> Iterator[Server]:
    """The server of this machine's account. Its errors are told as the command tells all errors."""
    with told():
        yield Server(account(), retry_s=retry_s(), say=_say)


@contextmanager
def told() -> Iterator[None]:
    """Raises Ended in place of what went wrong with a server, or with files that are kept of it."""
    try:
        yield
    except ServerProblem as error:
        show_problem(error.problem, "failed", STDERR)
        raise Ended(_code(error)) from error
    except Unreachable as error:
        _ours("unreachable", str(error), error.remedy)
        raise Ended(exits.OURS) from error
    except BrokenPipeError:  # nobody reads our output any more: no trouble with files
        raise
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _ours("files", text, "Check the path, the rights to it and the free space.")
        raise Ended(exits.OURS) from error


def _ours(what: str, message: str, remedy: str) -> None:
    problem = {"id": f"client:ours:{what}", "side": "ours", "message": message, "remedy": remedy}
    show_problem(problem, "errored", STDERR)


def _code(error: ServerProblem) -> int:
    side = error.problem["side"]
    if error.status >= 500 or side == "ours":
        return exits.OURS
    return exits.USER if side == "user" else exits.USAGE


def _say(text: str) -> None:
    STDERR.print(text, style="yellow", markup=False, soft_wrap=True)


def prepare(out: Path | None) -> None:
    """Makes the folder before anything is asked of the server: one that cannot be written must not waste a run."""
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise click.BadParameter(f"{out} cannot be written: {error.strerror}", param_hint="--out") from error


def awaited(api: Server, run_id: str, *, out: Path | None, as_json: bool) -> tuple[dict[str, Any], int]:
    """Follows a run to its end and shows it. The run and the exit code; Ended when interrupted."""
    run = followed(api, run_id)
    return run, finish(api, run, out=out, as_json=as_json)


def followed(api: Server, run_id: str) -> dict[str, Any]:
    """Its row, once it is over. Raises Ended when interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as pipelines cancel a job
    try:
        return follow(api, run_id)
    except KeyboardInterrupt:
        _say(
            f"Interrupted; the run goes on. `fuseworks follow {run_id}` takes it up again. "
            f"`fuseworks cancel {run_id}` ends it."
        )
        raise Ended(exits.INTERRUPTED) from None


def follow(api: Server, run_id: str) -> dict[str, Any]:
    """Shows events until the run is over; returns its row."""
    run: dict[str, Any] = api.get(f"runs/{run_id}/")
    STDERR.print(f"Run {run_id}: {api.url}/runs/{run_id}/", soft_wrap=True, highlight=False)
    budget_s = dict(run["policy"]).get("budget_s")
    seen, said = 0, ""  # the events' own positions; what was said of the queue
    with view(STDERR) as shown:
        while True:
            page = api.get(f"runs/{run_id}/events/", after=seen, wait=WAIT_S)
            for event in page["events"]:
                shown.event({"budget_s": budget_s, **event})
            seen = page["next"]
            shown.tick()
            if page["more"]:
                continue
            if page["status"] in TERMINAL:
                run = api.get(f"runs/{run_id}/")
                return run
            if page["status"] == "queued":
                place = _place(api, run_id)
                if place and place != said:
                    shown.event({"kind": "queued", "message": place})
                    said = place


def _place(api: Server, run_id: str) -> str:
    """Where the run stands in the queue; empty when it left it this moment."""
    place = api.get(f"runs/{run_id}/")["queue"]
    return str(place["reason"]) if place is not None else ""


def finish(api: Server, run: dict[str, Any], *, out: Path | None, as_json: bool) -> int:
    """Prints the answer, leaves the files in `out`, and returns the exit code."""
    document = _document(api, run)
    files = api.get(f"runs/{run['id']}/artifacts/") if out is not None else []
    with _even_unread():
        if as_json:
            left = {"purpose": run["purpose"], "status": run["status"], "problem": run["problem"]}
            click.echo(json.dumps(document or left, indent=2, ensure_ascii=False))
        elif document is not None:
            show(document if out is None else _as_kept(document, files), out, Console())
    problem = run["problem"] or (document or {}).get("problem")
    if problem:
        show_problem(problem, run["status"], STDERR)
    elif run["status"] != "succeeded":
        _say(f"The run {'was cancelled' if run['status'] == 'cancelled' else run['status'].replace('_', ' ')}.")
    if out is not None:
        _keep(api, run, document, files, out)
    return exits.of_status(run["status"])


@contextmanager
def _even_unread() -> Iterator[None]:
    """A reader of stdout that went away (`| head`) does not change the exit code: a gate's would read as another."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich exits with 1 by itself
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _document(api: Server, run: dict[str, Any]) -> dict[str, Any] | None:
    """The result document, or None for a run that left none."""
    try:
        document: dict[str, Any] = api.get(f"runs/{run['id']}/result/")["document"]
    except ServerProblem as error:
        if error.status == 404:
            return None
        raise
    return document


def _as_kept(document: dict[str, Any], files: list[dict[str, Any]]) -> dict[str, Any]:
    """Its artifacts as they lie in the folder; the document says where the worker had them."""
    here = {_name(file) for file in files}
    moved = [{**artifact, "path": Path(artifact["path"]).name} for artifact in document["artifacts"]]
    return {**document, "artifacts": [artifact for artifact in moved if artifact["path"] in here]}


def _keep(
    api: Server, run: dict[str, Any], document: dict[str, Any] | None, files: list[dict[str, Any]], out: Path
) -> None:
    if document is not None:
        (out / "result.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for file in files:
        if _name(file) != "result.json":
            api.download(f"runs/{run['id']}/artifacts/{_name(file)}/", out / _name(file), file["sha256"])


def _name(file: dict[str, Any]) -> str:
    return Path(file["name"]).name  # a name is no path
