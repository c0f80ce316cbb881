"""Scores over the models of a suite, from its rows. Pure.

fast_p is KernelBench's: the share of *all* models whose answer is correct and more than p times as fast; a model that
came to no outcome counts against it. Geometric means are over the models that were measured; how many is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Document = dict[str, Any]
THRESHOLDS = (1.0, 1.2, 1.5, 2.0)
AGAINST = ("over_baseline", "as_deployed", "over_best_peer", "over_best_peer_as_run")


def by_model(rows: Iterable[Document]) -> dict[str, list[Document]]:
    """The runs of each model, in the order in which models first appear."""
    runs: dict[str, list[Document]] = {}
    for one in rows:
        runs.setdefault(one["model"], []).append(one)
    return runs


def scores(rows: Sequence[Document]) -> Document:
    models = by_model(rows)
    asked = [against for against in AGAINST if any(one["ours"] and one["ours"][against] for one in rows)]
    return {
        "models": len(models),
        "measured": sum(all(run["ours"] for run in runs) for runs in models.values()),
        "fast_p": {against: _fast_p(models, against) for against in asked},
        "geomean": {against: _summary(models, against) for against in asked},
        "peers": _peers(models),
    }


def _figures(models: Mapping[str, Sequence[Document]], against: str) -> dict[str, Document]:
    """One figure a model: where it ran more than once, the geometric mean of its runs, and the lowest lower end."""
    figures = {}
    for model, runs in models.items():
        found = [run["ours"][against] for run in runs if run["ours"] and run["ours"][against]]
        if len(found) == len(runs):
            figures[model] = {"speedup": geomean([f["speedup"] for f in found]), "low": min(f["low"] for f in found)}
    return figures


def _fast_p(models: Mapping[str, Sequence[Document]], against: str) -> list[Document]:
    """`share` by the measured speedup, `proven` by the lower end of its interval."""
    figures = _figures(models, against).values()
    return [
        {
            "p": p,
            "share": sum(f["speedup"] > p for f in figures) / len(models) if models else 0.0,
            "proven": sum(f["low"] > p for f in figures) / len(models) if models else 0.0,
        }
        for p in THRESHOLDS
    ]


def _summary(models: Mapping[str, Sequence[Document]], against: str) -> Document | None:
    figures = {model: figure["speedup"] for model, figure in _figures(models, against).items()}
    if not figures:
        return None
    worst = min(figures, key=lambda model: figures[model])
    return {
        "speedup": geomean(figures.values()),
        "models": len(figures),
        "floor": {"model": worst, "speedup": figures[worst]},
    }


def _peers(models: Mapping[str, Sequence[Document]]) -> list[Document]:
    """Each engine over the models on which it was judged in every run: unlike sets of models, so these means are not to
    be held against one another."""
    runs = [(model, peer) for model, of_model in models.items() for run in of_model for peer in run["peers"]]
    rows = []
    for name in dict.fromkeys(peer["name"] for _, peer in runs):
        judged = [(model, peer) for model, peer in runs if peer["name"] == name and peer["judged"]]
        over = [peer["winner_over_it"]["speedup"] for _, peer in judged if peer["winner_over_it"]]
        own = [peer["over_baseline"]["speedup"] for _, peer in judged]
        rows.append(
            {
                "name": name,
                "models": len({model for model, _ in judged}),
                "over_baseline": geomean(own) if own else None,
                "winner_over_it": geomean(over) if over else None,
                "least_winner_over_it": min(over, default=None),
            }
        )
    return rows


def agreements(rows: Iterable[Document]) -> list[Document]:
    """Whether repeated runs of a model came to the same verdict; None after one run: there is nothing to compare. A run
    without a verdict agrees with no other."""
    found = []
    for model, runs in by_model(rows).items():
        outcomes = [run["outcome"] for run in runs]
        alike = len(set(outcomes)) == 1 and all(run["ours"] for run in runs)
        found.append(
            {
                "model": model,
                "outcomes": outcomes,
                "agree": None if len(runs) == 1 else alike,
                "wall_s": [run["wall_s"] for run in runs],
            }
        )
    return found


def geomean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))
