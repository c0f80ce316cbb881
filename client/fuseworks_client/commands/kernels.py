"""`fuseworks kernels`: the library of fused operations."""

from __future__ import annotations

import click

from fuseworks_client import optimizer


@click.command("kernels", epilog="\b\nExample:\n  fuseworks kernels --json > kernels.json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> int:
    """List the fused operations: what each computes, how it is recognised, and where it runs."""
    return optimizer.pass_through("kernels", *(["--json"] if as_json else []))
