"""`fuseworks diagnose`: what holds a model back, or the job that profiler traces were taken of."""

from __future__ import annotations

from pathlib import Path

import click

from fuseworks_client import exits, optimizer, options, traces
from fuseworks_client.commands.submit import only_team
from fuseworks_client.remote import Ended, server

FORMATS = ("text", "json", "sarif", "markdown")


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
  fuseworks diagnose models/din.py --format sarif > fuseworks.sarif
  fuseworks diagnose model.py --format markdown > diagnosis.md
  fuseworks diagnose model.py --trace profile.json
  fuseworks diagnose rank*.json.gz --server --team ads-ranking --name nightly

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
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    help="What to print: text for a terminal, json, sarif (2.1.0, for code hosts) or a markdown report.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Of a model: write one call, operation by operation, as a trace that ui.perfetto.dev opens.",
)
@click.option(
    "--trusted",
    is_flag=True,
    help="Read without the sandbox. For files that you made yourself only; the answer says so.",
)
@click.option(
    "--server",
    "on_server",
    is_flag=True,
    help="Upload the traces to your server, which keeps them and what it finds for your team.",
)
@click.option("--team", metavar="SLUG", help="With --server: whose job it is. Default: as `fuseworks submit` has it.")
@click.option("--name", metavar="NAME", help="With --server: the job's name. Default: the first file's.")
def command(
    files: tuple[Path, ...],
    against: tuple[Path, ...],
    as_json: bool,
    form: str,
    trace: Path | None,
    trusted: bool,
    on_server: bool,
    team: str | None,
    name: str | None,
) -> int:
    """Say where the time goes, why, and what mending it would give.

    Give it one model, or traces of torch.profiler (.json, .json.gz, or a .zip of many): those of one job together, one
    a rank. Nothing is optimized, and no file is left but what --trace names.
    """
    if as_json and form not in ("text", "json"):
        raise click.UsageError(f"--json and --format {form} ask for two things: give one of them.")
    if on_server:
        if trusted or trace is not None:
            given = "--trusted" if trusted else "--trace"
            raise click.UsageError(f"{given} is for reading here: a server reads traces, in its sandbox")
        if form not in ("text", "json"):
            raise click.UsageError(f"--format {form} is for reading here: the server's page exports it, and its API")
        return _on_server(files, against, as_json or form == "json", team, name)
    if team is not None or name is not None:
        raise click.UsageError("--team and --name need --server")
    chosen = [] if as_json or form == "text" else [f"--format={form}"]
    flags = [*(["--json"] if as_json else chosen), *(["--trusted"] if trusted else [])]
    compared = [f"--against={path}" for path in against] + ([f"--trace={trace}"] if trace is not None else [])
    return optimizer.pass_through("diagnose", *flags, *compared, "--", *map(str, files))


def _on_server(
    files: tuple[Path, ...], against: tuple[Path, ...], as_json: bool, team: str | None, name: str | None
) -> int:
    job = name or files[0].name.removesuffix(".gz").rpartition(".")[0] or files[0].name
    try:
        with server() as api:
            return traces.diagnose(api, files, against, team=team or only_team(api), job=job, as_json=as_json)
    except Ended as ended:
        return ended.code
