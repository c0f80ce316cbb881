"""`fuseworks inspect`: what is in a model, without measuring anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuseworks_client import exits, options
from fuseworks_client.run import run


@click.command(
    "inspect",
    epilog=f"""\b
Examples:
  fuseworks inspect model.py
  fuseworks inspect model.onnx --json

{exits.HELP}""",
)
@click.argument("model", type=options.MODEL)
@options.running
def command(model: Path, out: Path | None, as_json: bool, **given: Any) -> int:
    """Say what is in MODEL: inputs, sizes that may vary, operations, and which rewrites would fit.

    Quick, measures nothing, and leaves no files unless --out is given.
    """
    return run(options.spec_document("inspect", model, given), out=out, as_json=as_json, keep=False)
