"""What is shown while a run works: a live view on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fuseworks_client import words

RECENT = 6


class View(Protocol):
    def __enter__(self) -> View: ...

    def __exit__(self, *_: object) -> None: ...

    def event(self, event: dict[str, Any]) -> None: ...

    def tick(self) -> None:
        """Called a few times a second, so that the clock moves while nothing happens."""


def view(console: Console) -> View:
    return LiveView(console) if console.is_terminal else PlainView(console)


class PlainView:
    """One line an event: for logs of CI."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to restore."""

    def event(self, event: dict[str, Any]) -> None:
        line = f"[{event.get('at_s', 0):7.1f} s] {event.get('kind', ''):<13} {_message(event)}"
        self._console.print(Text(line), soft_wrap=True)

    def tick(self) -> None:
        """A log needs no clock."""


class LiveView:
    """Stage, candidate, elapsed time and budget, the best so far, and the last few messages."""

    def __init__(self, console: Console) -> None:
        self._recent: deque[Text] = deque(maxlen=RECENT)
        self._stage, self._candidate, self._best, self._first = "starting", "", "", ""
        self._budget_s, self._began = 0.0, time.monotonic()
        self._live = Live(console=console, refresh_per_second=8, transient=True, get_renderable=self._render)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def event(self, event: dict[str, Any]) -> None:
        kind = str(event.get("kind", ""))
        if kind not in {"log", "finished"}:
            self._stage, self._candidate = kind, words.plain(event.get("candidate") or "")
        self._budget_s = float(event.get("budget_s") or 0.0)
        self._began = time.monotonic() - float(event.get("at_s") or 0.0)
        data = dict(event.get("data") or {})
        best, first = data.get("best"), data.get("first_comparison")
        if isinstance(first, dict):
            self._first = (
                f"{words.plain(first.get('other', ''))} {words.speedup(first.get('speedup'), first.get('interval'))}"
            )
        if isinstance(best, dict):
            self._best = f"{words.plain(best.get('name', ''))} {words.speedup(best.get('speedup'))}"
        self._recent.append(Text(_message(event), overflow="ellipsis", no_wrap=True, style="dim"))

    def tick(self) -> None:
        self._live.refresh()

    def _render(self) -> Group:
        elapsed_s = time.monotonic() - self._began
        head = Table.grid(padding=(0, 2))
        clock = f"{words.seconds(elapsed_s)} of {words.seconds(self._budget_s)}" if self._budget_s else ""
        bar = ProgressBar(total=self._budget_s or 1.0, completed=min(elapsed_s, self._budget_s or 1.0), width=24)
        head.add_row(Text(self._stage, style="bold cyan"), Text(self._candidate), bar, Text(clock))
        lines: list[Table | Text] = [head, *self._recent]
        if self._first:
            lines.append(Text(f"first comparison (fresh processes, no verdict yet): {self._first}", style="green"))
        if self._best:
            lines.append(Text(f"best so far (first screening, no verdict yet): {self._best}", style="green"))
        return Group(*lines)


def _message(event: dict[str, Any]) -> str:
    text = words.plain(event.get("message", ""))
    candidate = event.get("candidate")
    if candidate and str(candidate) not in text:
        text = f"{words.plain(candidate)}: {text}"
    done, total = event.get("done"), event.get("total")
    return f"{text} ({done}/{total})" if done is not None and total else text
