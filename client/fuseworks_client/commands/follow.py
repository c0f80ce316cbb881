"""`fuseworks follow`: watch a run of the server to its end."""

from __future__ import annotations

from pathlib import Path

import click

from fuseworks_client import exits
from fuseworks_client.remote import Ended, Id, awaited, prepare, server


@click.command(
    "follow",
    short_help="Watch a run of the server to its end.",
    epilog=f"""\b
Examples:
  fuseworks follow 0f8e2c1a-...
  fuseworks follow https://fuseworks.example/runs/0f8e2c1a-.../ --json > result.json

{exits.HELP}; the run goes on""",
)
@click.argument("run", type=Id(), metavar="RUN")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Leave the files here.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document; progress on stderr.")
def command(run: str, out: Path | None, as_json: bool) -> int:
    """Watch RUN (its id or its address) and answer with its outcome, as `fuseworks optimize` does."""
    prepare(out)
    try:
        with server() as api:
            return awaited(api, run, out=out, as_json=as_json)[1]
    except Ended as ended:
        return ended.code
