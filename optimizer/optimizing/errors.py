"""Errors of the optimizing stage."""

from __future__ import annotations

from optimizer.errors import catalogue

catalogue(
    {
        "optimizing:user:unknown-pass": (
            "There is no pass called {name!r}.",
            "Known passes: {known}.",
        ),
        "optimizing:user:bad-options": (
            "The options of pass {name!r} are not valid: {text}",
            "The manifest gives each pass's options with their types and defaults.",
        ),
        "optimizing:ours:pass-failed": (
            "Pass {name!r} failed on this graph: {text}",
            "This is a fault of Fuseworks: the candidate is dropped, the others go on; please report it.",
        ),
        "optimizing:ours:bad-graph": (
            "Pass {name!r} left a graph that is not valid: {text}",
            "This is a fault of Fuseworks: the candidate is dropped, the others go on; please report it.",
        ),
        "optimizing:ours:export-again": (
            "The rewritten graph cannot be exported again: {text}",
            "This is a fault of Fuseworks: the candidate is dropped, the others go on; please report it.",
        ),
        "optimizing:user:bad-model": (
            "The graph cannot be read: {text}",
            "Export the model anew with the installed torch and upload it again.",
        ),
    }
)
