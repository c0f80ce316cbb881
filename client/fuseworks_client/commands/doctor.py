"""`fuseworks doctor`: what this machine lacks."""

from __future__ import annotations

import click

from fuseworks_client import optimizer


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> int:
    """Say what this machine has and lacks for optimizing models, and what each lack costs."""
    return optimizer.pass_through("doctor", *(["--json"] if as_json else []))
