"""`fuseworks recipe`: look at a recipe file, and use the server's catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fuseworks_client import exits, optimizer, options, words
from fuseworks_client.remote import Ended, Id, awaited, prepare, server


@click.group(
    "recipe",
    short_help="Look at a recipe file, or use the server's catalog.",
    epilog=f"""\b
Examples:
  fuseworks recipe check recipe.yaml
  fuseworks recipe list --search attention --min-gain 1.2
  fuseworks recipe get 0f8e2c1a-... --out recipe.yaml
  fuseworks recipe apply 0f8e2c1a-... MODEL_VERSION --wait

{exits.HELP}""",
)
def command() -> None:
    """Look at a recipe file (check, digest, show), or use the server's catalog (list, get, apply)."""


def _local(action: str, text: str) -> None:
    @command.command(action, help=text)
    @click.argument("file", type=options.MODEL)
    def look(file: Path) -> int:
        return optimizer.pass_through("recipe", action, str(file))


_local("check", "Say whether FILE is a valid recipe, and name the wrong field if not.")
_local("digest", "Print the identity of FILE: the SHA-256 of its canonical JSON.")
_local("show", "Print FILE in its normal form.")


@command.command("list")
@click.option("--search", "q", metavar="WORDS", help="In names, titles, summaries, tags and passes.")
@click.option("--target", help="cpu, cuda, rocm")
@click.option("--pass", "pass_", metavar="PASS", help="A pass among its steps.")
@click.option("--backend")
@click.option("--unit", metavar="SLUG", help="The business unit that owns it.")
@click.option("--min-gain", type=float, help="Least lower bound of a speedup that evidence shows, 1.2 say.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def list_(as_json: bool, pass_: str | None, **given: Any) -> int:
    """Search the server's catalog. `recipe get` and `recipe apply` take the ids that this lists."""
    try:
        with server() as api:
            rows = list(api.pages("recipes/", **given, **{"pass": pass_}))
    except Ended as ended:
        return ended.code
    if as_json:
        click.echo(_json(rows))
        return exits.DONE
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("id", "name", "version", "target", "backend", "gain at least"):
        table.add_column(column, overflow="fold", no_wrap=column == "id")
    for row in rows:
        texts = (words.plain(row[key]) for key in ("id", "name", "version", "target_kind", "backend"))
        table.add_row(*map(Text, texts), words.speedup(row["best_gain"]) or "no evidence")
    Console().print(table if rows else "No recipe fits.")
    return exits.DONE


@command.command("get")
@click.argument("version", type=Id(), metavar="RECIPE_VERSION")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Default: standard output.")
def get(version: str, out: Path | None) -> int:
    """Fetch a recipe as the YAML file that `fuseworks apply` takes."""
    try:
        with server() as api:
            text = api.text(f"recipe-versions/{version}/recipe.yaml")
            if out is not None:
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(text, encoding="utf-8")
    except Ended as ended:
        return ended.code
    if out is None:
        click.echo(text, nl=False)
    return exits.DONE


@command.command("apply")
@click.argument("recipe_version", type=Id(), metavar="RECIPE_VERSION")
@click.argument("version", type=Id(), metavar="MODEL_VERSION")
@click.option("--wait", is_flag=True, help="Follow the replay to its end and answer with its outcome.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="With --wait: the files.")
@click.option("--json", "as_json", is_flag=True, help="With --wait: print the result as one JSON document.")
@options.measuring
@options.precision
def apply(recipe_version: str, version: str, wait: bool, out: Path | None, as_json: bool, **given: Any) -> int:
    """Replay a recipe of the catalog on a model version of yours. The outcome is kept as evidence.

    RECIPE_VERSION is an id of `fuseworks recipe list`, MODEL_VERSION the id or the address of a version's page.
    """
    if (out is not None or as_json) and not wait:
        raise click.UsageError("--out and --json need --wait: there is no result before the replay is over")
    prepare(out)
    policy = options.spec_document("replay", Path("model"), given)["policy"]
    try:
        with server() as api:
            run_id = api.post(f"recipe-versions/{recipe_version}/apply/", {"version": version, "policy": policy})["id"]
            if not wait:
                click.echo(f"{api.url}/runs/{run_id}/")
                return exits.DONE
            return awaited(api, run_id, out=out, as_json=as_json)[1]
    except Ended as ended:
        return ended.code


def _json(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=2, ensure_ascii=False)
