"""`fuseworks recipe`: look at a recipe file."""

from __future__ import annotations

from pathlib import Path

import click

from fuseworks_client import exits, optimizer, options


@click.command(
    "recipe",
    epilog=f"""\b
Examples:
  fuseworks recipe check recipe.yaml
  fuseworks recipe digest recipe.yaml

{exits.HELP}""",
)
@click.argument("action", type=click.Choice(["check", "digest", "show"]))
@click.argument("file", type=options.MODEL)
def command(action: str, file: Path) -> int:
    """Look at a recipe FILE without using it.

    \b
    check   say whether it is valid, and name the wrong field if not
    digest  print its identity: the SHA-256 of its canonical JSON
    show    print it in its normal form
    """
    return optimizer.pass_through("recipe", action, str(file))
