"""An error as people read it: what, where, what to do, and the id to search for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fuseworks_client import words

_HEADINGS = {"user": "The model's fault", "usage": "Usage", "ours": "Fuseworks' or this machine's fault"}
DETAIL_LINES = 12


def show_problem(problem: Mapping[str, Any], status: str | None, console: Console) -> None:
    heading = _HEADINGS.get(str(problem.get("side")), str(status or "failed"))
    console.print(Text(f"{heading}: {words.plain(problem.get('message', ''))}", style="bold red"))
    rows = Table.grid(padding=(0, 2))
    for label, key in (("at", "place"), ("remedy", "remedy"), ("id", "id")):
        if problem.get(key):
            rows.add_row(Text(f"  {label}", style="dim"), Text(words.plain(problem[key])))
    console.print(rows)
    if problem.get("side") == "ours" and problem.get("detail"):
        lines = words.plain(problem["detail"]).strip().splitlines()[-DETAIL_LINES:]
        console.print(Text("\n".join(f"  | {line}" for line in lines), style="dim"))
