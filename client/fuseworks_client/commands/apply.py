"""`fuseworks apply`: replays a recipe on a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuseworks_client import exits, options
from fuseworks_client.run import run


@click.command(
    "apply",
    epilog=f"""\b
Examples:
  fuseworks apply recipe.yaml model.py
  fuseworks apply recipe.yaml other.pt2 --out result --json

{exits.HELP}""",
)
@click.argument("recipe", type=options.MODEL)
@click.argument("model", type=options.MODEL)
@options.running
@options.measuring
@options.precision
def command(recipe: Path, model: Path, out: Path | None, as_json: bool, **given: Any) -> int:
    """Do to MODEL exactly what RECIPE says, then verify and measure it.

    The recipe's precondition is checked first: mode, target, versions, and whether its passes match the model's graph.
    Where it does not hold, the recipe is refused with the reason (exit code 4).
    """
    document = options.spec_document("replay", model, given, recipe=str(recipe.absolute()))
    return run(document, out=out, as_json=as_json)
