"""`fuseworks diagnose`: what holds a model back, or the job that profiler traces were taken of."""

from __future__ import annotations

from pathlib import Path

import click

from fuseworks_client import exits, optimizer, options


@click.command(
    "diagnose",
    short_help="Say what holds a model, or the job of profiler traces, back.",
    epilog=f"""\b
Examples:
  fuseworks diagnose trace.json.gz
  fuseworks diagnose rank0.json rank1.json --json
  fuseworks diagnose ranks.zip
  fuseworks diagnose after.json --against before.json
  fuseworks diagnose model.py

{exits.HELP}""",
)
@click.argument("files", type=options.MODEL, nargs=-1, required=True, metavar="MODEL_OR_TRACE...")
@click.option(
    "--against",
    type=options.MODEL,
    multiple=True,
    metavar="TRACE",
    help="Compare with this trace: what was added, removed or changed, and what each explains. Again for more ranks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print facts and findings as one JSON document.")
@click.option(
    "--trusted",
    is_flag=True,
    help="Read without the sandbox. For files that you made yourself only; the answer says so.",
)
def command(files: tuple[Path, ...], against: tuple[Path, ...], as_json: bool, trusted: bool) -> int:
    """Say where the time goes, why, and what mending it would give.

    Give it one model, or traces of torch.profiler (.json, .json.gz, or a .zip of many): those of one job together, one
    a rank. Nothing is optimized and no file is left.
    """
    flags = [flag for flag, given in (("--json", as_json), ("--trusted", trusted)) if given]
    compared = [f"--against={path}" for path in against]
    return optimizer.pass_through("diagnose", *flags, *compared, "--", *map(str, files))
