"""`fuseworks compare`: two models against each other, measured together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuseworks_client import exits, options
from fuseworks_client.run import run


@click.command(
    "compare",
    epilog=f"""\b
Examples:
  fuseworks compare before.py after.py
  fuseworks compare v1.onnx v2.onnx --budget 3m --json

{exits.HELP}""",
)
@click.argument("base", type=options.MODEL)
@click.argument("other", type=options.MODEL)
@options.running
@options.measuring
def command(base: Path, other: Path, out: Path | None, as_json: bool, **given: Any) -> int:
    """Is OTHER faster than BASE? Both are measured together, in pairs of fresh processes.

    Both must take the same inputs. The speedup is BASE's time over OTHER's: above 1 means that OTHER is faster.
    """
    document = options.spec_document("compare", base, given, against=str(other.absolute()))
    return run(document, out=out, as_json=as_json)
