"""What happens when a run ends: other apps register functions in a module `when_finished.py` of theirs.

`@when_finished def f(run, result)` is called for an end that has a result document, `@when_ended def f(run)` for one
that has none (cancelled in the queue, worker lost, unreadable answer). Both run in the transaction that ends the run,
after its status changed, with its row locked: file what the run brought, and leave slow work to others.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

from django.apps import apps

from fuseworks.runs.models import Run
from optimizer.result import Result

WhenFinished = Callable[[Run, Result], None]
WhenEnded = Callable[[Run], None]

_finished: dict[str, WhenFinished] = {}
_ended: dict[str, WhenEnded] = {}


def when_finished(function: WhenFinished) -> WhenFinished:
    """Registers a function for every end with a result document, whatever its status."""
    _finished[f"{function.__module__}.{function.__qualname__}"] = function
    return function


def when_ended(function: WhenEnded) -> WhenEnded:
    """Registers a function for every end without one."""
    _ended[f"{function.__module__}.{function.__qualname__}"] = function
    return function


def finished_functions() -> list[WhenFinished]:
    """By name, so that the order is the same in every process."""
    return [_finished[name] for name in sorted(_finished)]


def ended_functions() -> list[WhenEnded]:
    return [_ended[name] for name in sorted(_ended)]


def load() -> None:
    """Imports `when_finished` of every Fuseworks app that has one. One that does not import stops start-up."""
    for app in apps.get_app_configs():
        name = f"{app.name}.when_finished"
        if app.name.startswith("fuseworks.") and importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
