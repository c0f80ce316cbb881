"""`fuseworks cancel`: end a run of the server before its time."""

from __future__ import annotations

import json
from typing import Any

import click

from fuseworks_client import exits
from fuseworks_client.remote import TERMINAL, WAIT_S, Ended, Id, server
from fuseworks_client.server import Server, ServerProblem

OVER = "runs:usage:over"


@click.command(
    "cancel",
    short_help="End a run of the server before its time.",
    epilog="""\b
Examples:
  fuseworks cancel 0f8e2c1a-...
  fuseworks cancel https://fuseworks.example/runs/0f8e2c1a-.../ --wait
  trap 'fuseworks cancel "$RUN"' INT TERM

\b
Exit codes:
  0    nothing works on it any more, or its worker was asked to end it; one that had ended already is said so
  3    Fuseworks' or this machine's fault
  64   there is no such run, or you may not cancel it
  130  interrupted""",
)
@click.argument("run", type=Id(), metavar="RUN")
@click.option("--wait", is_flag=True, help="Return when the run has ended; its worker may take a minute.")
@click.option("--json", "as_json", is_flag=True, help="Print the run as one JSON document.")
def command(run: str, wait: bool, as_json: bool) -> int:
    """Cancel RUN (its id or its address): one in the queue at once, one at work as soon as its worker hears of it.

    What a run at work has measured by then is kept.
    """
    try:
        with server() as api:
            row, had_ended = _cancelled(api, run)
            if wait:
                row = _ended(api, row)
            click.echo(json.dumps(row, indent=2, ensure_ascii=False) if as_json else _told(row, had_ended))
            return exits.DONE
    except Ended as ended:
        return ended.code


def _cancelled(api: Server, run: str) -> tuple[dict[str, Any], bool]:
    """The run, and whether it was over before."""
    try:
        return api.post(f"runs/{run}/cancel/"), False
    except ServerProblem as error:
        if error.problem["id"] != OVER:
            raise
        return api.get(f"runs/{run}/"), True


def _ended(api: Server, row: dict[str, Any]) -> dict[str, Any]:
    seen = 0
    while row["status"] not in TERMINAL:
        page = api.get(f"runs/{row['id']}/events/", after=seen, wait=WAIT_S)
        seen = page["next"]
        if page["status"] in TERMINAL:
            row = api.get(f"runs/{row['id']}/")
    return row


def _told(row: dict[str, Any], had_ended: bool) -> str:
    status = str(row["status"]).replace("_", " ")
    if had_ended:
        return f"The run had ended already: {status}."
    if row["status"] == "cancelled":
        return "The run is cancelled."
    if row["status"] in TERMINAL:
        return f"The run ended before its worker heard of it: {status}."
    return f"The run's worker was asked to end it. `fuseworks cancel {row['id']} --wait` returns when it has."
