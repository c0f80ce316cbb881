"""`fuseworks package`: fetch what a run leaves to deploy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuseworks_client import exits
from fuseworks_client.remote import Ended, Id, server
from fuseworks_client.server import Server, ServerProblem

PACKAGE = "package.zip"


@click.command(
    "package",
    short_help="Fetch what a run leaves to deploy.",
    epilog=f"""\b
Examples:
  fuseworks package 0f8e2c1a-... --out package.zip

{exits.HELP}""",
)
@click.argument("run", type=Id(), metavar="RUN")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path(PACKAGE), show_default=True)
def command(run: str, out: Path) -> int:
    """Download the package of RUN (its id or its address): artifact, input contract, toolchain and a run.py.

    Try it: unzip it, then `python run.py --self-test`.
    """
    try:
        with server() as api:
            package = _package(api, run)
            out.parent.mkdir(parents=True, exist_ok=True)
            size = api.download(f"runs/{run}/artifacts/{PACKAGE}/", out, package["sha256"])
    except Ended as ended:
        return ended.code
    click.echo(f"{out}: {size:,} bytes")
    return exits.DONE


def _package(api: Server, run: str) -> dict[str, Any]:
    for artifact in api.get(f"runs/{run}/artifacts/"):
        if artifact["name"] == PACKAGE:
            return dict(artifact)
    status = api.get(f"runs/{run}/")["status"].replace("_", " ")
    problem = {
        "id": "client:usage:no-package",
        "detail": f"the run left no package (it is {status})",
        "remedy": f"Runs leave one when they found something faster; `fuseworks follow {run}` says what came of this.",
    }
    raise ServerProblem(404, problem)
