"""`fuseworks schema`: the published JSON schemas."""

from __future__ import annotations

import click

from fuseworks_client import optimizer


@click.command("schema", epilog="\b\nExample:\n  fuseworks schema result > result.schema.json")
@click.argument("name", type=click.Choice(["result", "recipe", "workload", "event", "spec", "diagnosis"]))
def command(name: str) -> int:
    """Print the JSON schema of a document.

    \b
    result    what --json prints and result.json holds
    recipe    a recipe file
    workload  how a model is called (--workload)
    event     one line of progress
    spec      what one run is asked to do
    diagnosis what `diagnose --json` prints
    """
    return optimizer.pass_through("schema", name)
