"""`fuseworks explain`: what a model would come to on a GPU that is not here. Predicted, nothing measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuseworks_client import exits, options
from fuseworks_client.prediction import flat
from fuseworks_client.run import run


@click.command(
    "explain",
    epilog=f"""\b
Examples:
  fuseworks explain model.py --target cuda:sm_90
  fuseworks explain model.py --target cuda:sm_100 --json > predicted.json

{exits.HELP}""",
)
@click.argument("model", type=options.MODEL)
@options.running
def command(model: Path, out: Path | None, as_json: bool, **given: Any) -> int:
    """Say what MODEL would come to on a GPU that this machine does not have: --target cuda:sm_80, sm_90 or sm_100.

    The graph is lowered by Inductor for that GPU, before and after our rewrites, and every Triton kernel is compiled:
    registers, spills, shared memory, occupancy, and the least time by bandwidth and FLOP/s. Nothing is run there: all
    of it is predicted. Leaves no files unless --out is given.
    """
    return run(options.spec_document("explain", model, given), out=out, as_json=as_json, keep=False, shape=flat)
