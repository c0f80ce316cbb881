"""The error catalogue: every failure has a stable id that names the guilty side, a text, and a remedy.

Ids read `<stage>:<side>:<what>`; side is `user` (the model's, the caller's or the recipe's fault: run status `failed`),
`ours` (Fuseworks' or the machine's: `errored`) or `usage` (a call that makes no sense). Raise with the id; texts and
remedies live here and nowhere else.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from typing import Any

# The exit code of a command or a gate says whose fault an end is: ours or the machine's, the model's, the caller's.
EXIT_DONE, EXIT_OURS, EXIT_USER, EXIT_USAGE = 0, 3, 4, 64
# By `optimizer.result.RunStatus`. A model that hangs is ended by its child's own limit and `failed`; a budget that is
# over cuts a run short, and it `succeeded`. So a run that came to its time limit, twice its budget and more, was held
# up by something else than its model.
EXIT_OF_STATUS = {
    "succeeded": EXIT_DONE,
    "failed": EXIT_USER,
    "errored": EXIT_OURS,
    "cancelled": EXIT_OURS,
    "timed_out": EXIT_OURS,
}


@dataclass(frozen=True)
class Entry:
    """`message` and `remedy` are format strings over the keyword arguments given when it is raised."""

    message: str
    remedy: str


CATALOGUE: dict[str, Entry] = {}


def catalogue(entries: dict[str, tuple[str, str]]) -> None:
    """Adds a stage's errors: `{id: (message, remedy)}`. Called at module level by `optimizer/<stage>/errors.py`."""
    for id_, (message, remedy) in entries.items():
        if id_ in CATALOGUE:
            raise RuntimeError(f"error id {id_!r} is defined twice")
        if id_.split(":")[1] not in {"user", "ours", "usage"}:
            raise RuntimeError(f"error id {id_!r} names no side")
        CATALOGUE[id_] = Entry(message, remedy)


def load_catalogue() -> None:
    """Imports every stage's `errors` module. Whoever reads a child's answer needs them all: an id that is not known
    here cannot be told from one that a hostile child made up."""
    import optimizer

    for stage in pkgutil.iter_modules(optimizer.__path__):
        if stage.ispkg and importlib.util.find_spec(f"optimizer.{stage.name}.errors") is not None:
            importlib.import_module(f"optimizer.{stage.name}.errors")


class FuseworksError(Exception):
    """An expected failure. `place` is where the guilty thing is: `model.py:41`, a node, an input's name, a file.

    `detail` is free text for the log (an exception's own words); `context` fills the catalogue's texts.
    """

    def __init__(self, id: str, *, place: str | None = None, detail: str | None = None, **context: Any) -> None:
        self.id = id
        self.place = place
        self.detail = detail
        self.context = context
        entry = CATALOGUE[id]
        self.message = entry.message.format_map(_Default(context))
        self.remedy = entry.remedy.format_map(_Default(context))
        super().__init__(f"[{id}] {self.message}" + (f" ({place})" if place else ""))

    @property
    def side(self) -> str:
        return self.id.split(":")[1]

    def document(self) -> dict[str, Any]:
        """JSON form, as results, events and the child's wire carry it."""
        return {
            "id": self.id,
            "side": self.side,
            "message": self.message,
            "place": self.place,
            "remedy": self.remedy,
            "detail": self.detail,
            "context": {k: v for k, v in self.context.items() if isinstance(v, (str, int, float, bool, type(None)))},
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> FuseworksError:
        """Rebuilds an error that a child reported. The child is not trusted: an unknown id becomes ours."""
        id_ = document.get("id")
        if not isinstance(id_, str) or id_ not in CATALOGUE:
            return cls("child:ours:unexpected", detail=str(document.get("detail") or document)[:20_000])
        context = {k: v for k, v in dict(document.get("context") or {}).items() if isinstance(k, str)}
        for reserved in ("id", "place", "detail", "self"):
            context.pop(reserved, None)
        place, detail = document.get("place"), document.get("detail")
        return cls(
            id_,
            place=place[:2000] if isinstance(place, str) else None,
            detail=detail[:20_000] if isinstance(detail, str) else None,
            **context,
        )


class _Default(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return f"<{key}>"


catalogue(
    {
        "child:ours:unexpected": (
            "A child process failed in a way Fuseworks did not foresee.",
            "This is a fault of Fuseworks: please report it with the log of the run.",
        ),
        "child:user:exception": (
            "The model's own code raised {type}: {text}",
            "Run the model by itself in Python with the same inputs and mend the error at the named line.",
        ),
        "child:user:crashed": (
            "The process running the model died of {signal}.",
            "Native code in the model (a custom extension or an out-of-range index) usually causes this; run it alone.",
        ),
        "child:user:timed-out": (
            "The process running the model gave no answer within {limit_s} s while it was {doing}.",
            "Check the model for endless loops; raise --budget when it is only slow.",
        ),
        "child:user:out-of-memory": (
            "The process running the model took more than its {limit_mib} MiB of memory.",
            "Use smaller inputs (the workload's batch) or run on a machine with more memory.",
        ),
        "child:user:disk-full": (
            "The model filled its scratch space of {limit_mib} MiB.",
            "A model must not write files; write less to the working folder.",
        ),
        "child:user:too-much-output": (
            "The model printed more than {limit_mib} MiB.",
            "Remove the print statements from the model's code.",
        ),
        "child:user:bad-answer": (
            "The process running the model broke the protocol: {text}",
            "The model's code must not touch inherited file descriptors.",
        ),
        "run:usage:spec": ("The run's spec is not valid: {text}", "Correct the named field."),
    }
)
