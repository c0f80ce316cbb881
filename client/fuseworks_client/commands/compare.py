"""`fuseworks compare`: two models measured together here, or two runs of the server put beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fuseworks_client import exits, options, words
from fuseworks_client.remote import UUID, Ended, server
from fuseworks_client.run import run

CANNOT_TELL = "cannot_tell"
JUDGED = "judged"


@click.command(
    "compare",
    short_help="Measure two models together, or put two runs beside each other.",
    epilog=f"""\b
Examples:
  fuseworks compare before.py after.py
  fuseworks compare v1.onnx v2.onnx --budget 3m --json
  fuseworks compare before.py after.py --recipe result/recipe.yaml
  fuseworks compare RUN_ID OTHER_RUN_ID          (of the server)

{exits.HELP}""",
)
@click.argument("base")
@click.argument("other")
@options.running
@options.measuring
@click.option(
    "--recipe",
    type=options.MODEL,
    metavar="FILE",
    help="Measure both as packaged by the steps of this recipe. Default: as uploaded, each as its framework runs it.",
)
@click.pass_context
def command(
    context: click.Context, base: str, other: str, out: Path | None, as_json: bool, recipe: Path | None, **given: Any
) -> int:
    """Is OTHER faster than BASE? Both are measured together, in pairs of fresh processes.

    Both must take the same inputs. The speedup is BASE's time over OTHER's: above 1 means that OTHER is faster. With
    --recipe both are first built by its steps, and each is verified; where they do not fit one of the two, that one is
    named with the reason (exit code 4).

    Two runs of the server (ids or addresses) are looked up there instead, and put beside each other when their
    conditions are equal. Those were not measured together, and the answer says so. Where conditions differ, the answer
    says which, and the exit code is 64. Options for measuring do nothing then.
    """
    runs = [_run_id(text) for text in (base, other)]
    if runs[0] is not None and runs[1] is not None:
        return _runs(runs[0], runs[1], as_json)
    given_as = {parameter.name: parameter for parameter in context.command.params}
    before, after = (
        options.MODEL.convert(text, given_as[name], context) for name, text in (("base", base), ("other", other))
    )
    more = {"recipe": str(recipe.absolute())} if recipe is not None else {}
    document = options.spec_document("compare", before, given, against=str(after.absolute()), **more)
    return run(document, out=out, as_json=as_json)


def _run_id(text: str) -> str | None:
    """Of an id, or of the address of a run's page. None for the path of a file."""
    found = UUID.findall(text)
    is_address = text.startswith(("https://", "http://")) and bool(found)
    return str(found[-1]).lower() if is_address or UUID.fullmatch(text) else None


def _runs(base: str, other: str, as_json: bool) -> int:
    try:
        with server() as api:
            found = api.get("comparisons/", runs=f"{base},{other}")
    except Ended as ended:
        return ended.code
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        console = Console()
        unjudged = _unjudged(found)
        if unjudged:
            text = f"Nothing was judged in {' and '.join(unjudged)}: there is no speedup to put beside another."
            console.print(text, highlight=False, soft_wrap=True)
            return exits.USAGE
        console.print(_figures(found) if found["comparable"] else _differences(found))
        for row in found["derived"]:
            text = f"speedup of {row['run']} / that of {row['base']}: {row['ratio_of_speedups']:.2f}"
            console.print(text, highlight=False, soft_wrap=True)
        if found["comparable"] and any(row["headline"]["verdict"] == CANNOT_TELL for row in found["runs"]):
            console.print("No ratio is given of a run that cannot tell.", highlight=False)
        if found["comparable"]:
            console.print(words.plain(found["statement"]), style="dim", markup=False, highlight=False, soft_wrap=True)
    return exits.DONE if found["comparable"] else exits.USAGE


def _unjudged(found: dict[str, Any]) -> list[str]:
    """Ids of runs that have no verdict of their own: the server names nothing else that differs then."""
    (values,) = [one["values"] for one in found["differences"] if one["key"] == "result"] or [[]]
    return [row["run"]["id"] for row, value in zip(found["runs"], values, strict=False) if value != JUDGED]


def _figures(found: dict[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("run", "model", "before", "after", "speedup", "verdict"):
        table.add_column(column)
    for row in found["runs"]:
        facts, headline = row["run"], row["headline"]
        cells = (
            facts["id"],
            words.plain(f"{facts['model_name']} v{facts['version_number']}"),
            words.milliseconds(headline["baseline_ms"]),
            words.milliseconds(headline["best_ms"]),
            words.speedup(headline["speedup"], headline["speedup_ci"])
            + (" unproven" if headline["verdict"] == CANNOT_TELL else ""),
            words.verdict(headline["verdict"]),
        )
        table.add_row(*map(Text, cells))  # a plain string would be read as markup
    return table


def _differences(found: dict[str, Any]) -> Table:
    title = "These runs were not measured under equal conditions and are not compared"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("what differs", *(row["run"]["id"] for row in found["runs"])):
        table.add_column(column, overflow="fold")
    for difference in found["differences"]:
        table.add_row(*(Text(words.plain(text)) for text in (difference["key"], *difference["values"])))
    return table
