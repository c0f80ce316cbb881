"""Traces given to a server: uploaded as one, diagnosed there, and told."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from fuseworks_client import exits, uploads
from fuseworks_client.problems import show_problem
from fuseworks_client.remote import STDERR, followed
from fuseworks_client.server import Server, ServerProblem

SAME_BYTES = "registry:usage:same-bytes"
ZIP = "traces.zip"
GOES_ON = frozenset({"queued", "running", "succeeded"})
Trace = dict[str, Any]


def diagnose(api: Server, files: Sequence[Path], against: Sequence[Path], *, team: str, job: str, as_json: bool) -> int:
    """The exit code. Raises ServerProblem, Unreachable, OSError, Ended."""
    trace = _given(api, files, team, job)
    if against:
        before = _given(api, against, team, job)
        run_id = _started(api, {"version": trace["id"], "against": before["id"]})
    elif trace["run_status"] in GOES_ON:
        run_id = str(trace["run"])
    else:
        run_id = _started(api, {"version": trace["id"]})
    run = followed(api, run_id)
    if run["problem"]:
        show_problem(run["problem"], run["status"], STDERR)
    if run["status"] != "succeeded":
        return exits.of_status(run["status"])
    diagnosis = api.get(f"runs/{run_id}/diagnosis/")
    if as_json:
        click.echo(json.dumps(diagnosis, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join([*_lines(diagnosis), f"{api.url}/runs/{run_id}/diagnosis/"]))
    return exits.DONE


def _started(api: Server, asked: dict[str, str]) -> str:
    return str(api.post("runs/", {"purpose": "diagnose", **asked})["id"])


def _given(api: Server, files: Sequence[Path], team: str, job: str) -> Trace:
    """The trace that the files are together; the very same bytes are not sent twice."""
    with _one_file(files) as file:
        sha256 = uploads.sha256_of(file)
        for known in api.pages("traces/", team=team, sha256=sha256, deleted="false"):
            if known["job_name"] == job:
                STDERR.print("The server has this very trace already: it is used.")
                return dict(known)
        begun = uploads.begin(api, file, sha256, {"kind": "job", "team": team, "model_name": job})
        try:
            id_ = uploads.send(api, begun, file, _progress(file))
        except ServerProblem as error:  # somebody else sent the same in this moment
            if error.problem["id"] != SAME_BYTES or not error.document.get("version"):
                raise
            id_ = str(error.document["version"])
    trace: Trace = api.get(f"traces/{id_}/")
    STDERR.print(
        f"{trace['job_name']} v{trace['number']}: {api.url}/traces/{id_}/",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return trace


def _progress(file: Path) -> Any:
    def say(done: int, total: int) -> None:
        if done == total or STDERR.is_terminal:
            text = f"Uploading {file.name}: {done:,} of {total:,} bytes"
            STDERR.print(text, end="\r" if done < total else "\n", markup=False, highlight=False)

    return say


@contextmanager
def _one_file(files: Sequence[Path]) -> Iterator[Path]:
    """The one that there is, or a zip that stores all: the same files make the same bytes, whenever they are packed."""
    if len(files) == 1:
        yield files[0]
        return
    names = [file.name for file in files]
    if len(set(names)) != len(names):
        raise click.UsageError("two of the traces have the same name: rename one, or zip them yourself")
    with tempfile.TemporaryDirectory(prefix="fuseworks-traces-") as folder:
        packed = Path(folder) / ZIP
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for file in files:
                with file.open("rb") as data, archive.open(zipfile.ZipInfo(file.name), "w", force_zip64=True) as entry:
                    shutil.copyfileobj(data, entry)
        yield packed


def _lines(diagnosis: dict[str, Any]) -> Iterator[str]:
    yield _plain(diagnosis["summary"])
    for place, finding in enumerate(diagnosis["findings"], 1):
        cost = f"   costs {finding['cost_share']:.1%} of the time" if finding["cost_share"] is not None else ""
        yield f"{place}. [{finding['severity']}] {_plain(finding['title'])}{cost}"
    comparison = diagnosis["comparison"]
    if comparison is not None:
        base_ms, ms = comparison["base_step_ms"], comparison["step_ms"]
        yield f"A step took {base_ms:,.2f} ms before and takes {ms:,.2f} ms now."


def _plain(text: object) -> str:
    """Names out of a trace are a stranger's: control characters go."""
    return "".join(c if c.isprintable() else "?" for c in str(text))
