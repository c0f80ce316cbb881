"""The report of a suite: one document, and the same as Markdown. Pure, but for `write`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from fuseworks_client import words
from fuseworks_client.suite.rows import Document, row
from fuseworks_client.suite.runs import Run
from fuseworks_client.suite.scores import THRESHOLDS, agreements, scores

SCHEMA_VERSION = "1.0"
AGAINST = {
    "over_baseline": "the original, same settings",
    "as_deployed": "the original in its default settings",
    "over_best_peer": "the best peer of each model, same settings",
    "over_best_peer_as_run": "the best peer of each model, both as users run them",
}
COLUMNS = (
    "model", "outcome", "original ms", "winner ms", "winner over original", "as deployed", "best peer",
    "best peer over original", "ours over best peer", "as users run them", "winner", "precision", "error", "pairs",
    "noise floor", "wall s",
)  # fmt: skip
PEER_COLUMNS = (
    "model", "peer", "precision", "ms", "over original", "winner over it", "verdict", "winner over it as run", "error",
    "if not judged",
)  # fmt: skip
RIVALS = {
    "all": "all peers",
    "all_as_run": "all peers (each under the winner's settings and in its default ones)",
    "best": "the best peer",
}
NOTES = (
    "**Ours** is what would be deployed: the winner where it is offered (verified, judged faster under the same "
    "settings, not slower as deployed), else the original itself.",
    "The **best peer** of a model is the fastest in the judgement among all engines without our rewrites and the "
    "original. It is chosen by the samples that give its figures; the table of peers has the ratio over each.",
    "**As users run them**: ours with its settings over the fastest of the original and all peers in default ones.",
    "Intervals hold for each comparison by itself at 99 %, not for all of them together.",
    "**error** is the centred relative error against float64 of the output that comes nearest to what it is allowed.",
    "**fast_p**: the share of all models whose answer is correct and more than p times as fast, by the measured "
    "speedup, and in brackets by the lower end of its interval.",
)


def document(runs: Sequence[Run], asked: Document, *, models: int, times: int, left_out: Sequence[str]) -> Document:
    """`models` and `times`: of the whole suite, of which `runs` may be the first part."""
    rows = [row(run) for run in runs]
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "fuseworks.bench",
        "asked": {**asked, "models": models, "times": times},
        "complete": len(runs) == models * times,
        "scores": scores(rows),
        "rows": rows,
        "agreements": agreements(rows),
        "conditions": _conditions(runs),
        "left_out": list(left_out),
    }


def _conditions(runs: Iterable[Run]) -> list[Document]:
    """One entry for each set of conditions: more than one means that rows are not to be compared with each other."""
    found: dict[str, Document] = {}
    for run in runs:
        conditions = run.result.get("conditions")
        if not conditions:
            continue
        one = found.setdefault(
            conditions["fingerprint"],
            {"fingerprint": conditions["fingerprint"], "fixed": conditions["fixed"], "models": [], "load_averages": []},
        )
        one["models"].append(run.model.label)
        one["load_averages"] += conditions.get("observed", {}).get("load_averages") or []
    return list(found.values())


def write(report: Document, out: Path) -> Path:
    """Both files; returns the Markdown's path."""
    (out / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    path = out / "report.md"
    path.write_text(markdown(report), encoding="utf-8")
    return path


def markdown(report: Document) -> str:
    rows, asked = report["rows"], report["asked"]
    parts = [
        f"# Benchmark of {asked['models']} models, lane {asked['lane']}",
        f"{asked['budget_s']:g} s of budget each, target {asked['target']}, "
        f"{RIVALS[asked['rivals']]} in each judgement, "
        f"Fuseworks {asked['version']}. All figures of a model are from one interleaved run.",
    ]
    if not report["complete"]:
        wanted = asked["models"] * asked["times"]
        parts.append(f"**Cut short**: {len(rows)} of {wanted} runs. Run it again with `--resume` to go on.")
    parts += ["## Scores", scored(report["scores"]), "## Models", table(COLUMNS, map(cells, rows))]
    parts += ["## Peers", table(PEER_COLUMNS, (_peer_cells(one, peer) for one in rows for peer in one["peers"]))]
    if asked["times"] > 1:
        parts += ["## Verdicts agree", _agreement_table(report["agreements"])]
    without = [[one["model"], one["outcome"], one["reason"]] for one in rows if not one["ours"]]
    if without:
        parts += ["## Without a verdict", table(("model", "outcome", "reason"), without)]
    if report["left_out"]:
        parts += ["## Left out", "Python files that are no models: " + _cell(", ".join(report["left_out"])) + "."]
    parts += ["## Conditions", *_told(report["conditions"]), "## How to read this", "\n".join(f"- {n}" for n in NOTES)]
    return "\n\n".join(parts) + "\n"


def scored(found: Document) -> str:
    """Geometric means, fast_p and the engines over all models."""
    fast = found["fast_p"]
    shares = [
        [f"{p:g}", *(f"{of[at]['share']:.0%} ({of[at]['proven']:.0%})" for of in fast.values())]
        for at, p in enumerate(THRESHOLDS)
    ]
    means = [
        [
            AGAINST[key],
            _times(one["speedup"]),
            str(one["models"]),
            one["floor"]["model"],
            _times(one["floor"]["speedup"]),
        ]
        for key, one in found["geomean"].items()
        if one
    ]
    peers = [
        [
            one["name"], str(one["models"]), _times(one["over_baseline"]), _times(one["winner_over_it"]),
            _times(one["least_winner_over_it"]),
        ]
        for one in found["peers"]
    ]  # fmt: skip
    return "\n\n".join(
        [
            f"{found['measured']} of {found['models']} models were measured.",
            table(("ours over", "geometric mean", "models", "worst model", "its ratio"), means),
            table(("fast_p, p", *(AGAINST[key] for key in fast)), shares),
            table(("engine", "models judged on", "over original", "winner over it", "least"), peers),
        ]
    )


def cells(one: Document) -> list[str]:
    """A row of the models' table, as COLUMNS names it; empty where the run does not say."""
    ours, best = one["ours"] or {}, one["best_peer"] or {}
    return [
        one["model"],
        one["outcome"].replace("_", " "),
        _number(one["baseline_ms"]),
        _number(one["winner_ms"]),
        figure(one["winner_over_baseline"]),
        figure(ours.get("as_deployed")) if one["offered"] else "",
        best.get("name", ""),
        figure(best.get("over_baseline")),
        figure(ours.get("over_best_peer")),
        figure(ours.get("over_best_peer_as_run")),
        (one["winner"] or "") + ("" if one["offered"] or not one["winner"] else " (not offered)"),
        one["winner_precision"] or "",
        _error(one["error"]),
        str(one["pairs"] or ""),
        f"{one['noise_floor']:.1%}" if one["noise_floor"] is not None else "",
        f"{one['wall_s']:.0f}",
    ]


def _peer_cells(one: Document, peer: Document) -> list[str]:
    why = peer["reason"] or peer["status"].replace("_", " ")
    if peer["status"] == "passed":
        why = f"passed, {_times(peer['screened_speedup'])} in the screening"
    over = peer["winner_over_it"] or {}
    return [
        one["model"],
        peer["name"],
        peer["precision"],
        _number(peer["ms"]),
        figure(peer["over_baseline"]),
        figure(peer["winner_over_it"]) or ("it is the winner" if peer["judged"] else ""),
        (over.get("verdict") or "").replace("_", " "),
        figure(peer["winner_over_it_as_run"]),
        _error(peer["error"]),
        "" if peer["judged"] else why,
    ]


def _agreement_table(found: Iterable[Document]) -> str:
    told = {None: "one run only", True: "yes", False: "NO"}
    rows = [
        [
            one["model"], str(len(one["outcomes"])), ", ".join(one["outcomes"]), told[one["agree"]],
            ", ".join(f"{s:.0f}" for s in one["wall_s"]),
        ]
        for one in found
    ]  # fmt: skip
    return table(("model", "runs", "verdicts", "agree", "wall s"), rows)


def _told(conditions: Sequence[Document]) -> list[str]:
    parts = []
    if len(conditions) > 1:
        parts.append(
            f"**The runs had {len(conditions)} different sets of conditions**: only figures within one model's row, or "
            "of rows with the same fingerprint, can be held against each other."
        )
    for one in conditions:
        fixed = "; ".join(f"{name} {value}" for name, value in _flat(one["fixed"]))
        loads = one["load_averages"]
        load = f" Load averages {min(loads):.1f} to {max(loads):.1f}." if loads else ""
        models = ", ".join(dict.fromkeys(one["models"]))
        parts.append(_cell(f"`{one['fingerprint'][:12]}`: {fixed}.{load} Models: {models}."))
    return parts


def _flat(document: Document, prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in document.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return rows


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([line(columns), line(["---"] * len(columns)), *map(line, rows)])


def line(texts: Iterable[str]) -> str:
    return "| " + " | ".join(map(_cell, texts)) + " |"


def _cell(text: str) -> str:
    """A model's own words (names, messages) must neither break the table nor become markup."""
    return " ".join(words.plain(text).split()).replace("|", "\\|").replace("<", "&lt;")


def figure(found: Document | None) -> str:
    if not found:
        return ""
    exact = found["low"] == found["high"] == found["speedup"]
    return f"{found['speedup']:.2f}" + ("" if exact else f" [{found['low']:.2f}, {found['high']:.2f}]")


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


def differing(report: Document) -> list[Document]:
    """Models whose repeated runs came to unlike verdicts."""
    return [one for one in report["agreements"] if one["agree"] is False]
