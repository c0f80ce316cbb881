"""What was predicted ahead of time beside what ran: resources and bounds of kernels, times of whole models. No torch.

Kernels: against `kernels/aot/report.json`, of the same target. Models: against `predictions.json`, of the same device;
another model of GPU has other rates, and then nothing is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.record import PREDICTED, ROOT, source

REPORT = ROOT / "kernels" / "aot" / "report.json"
PREDICTIONS = Path(__file__).with_name("predictions.json")
SIDES = {"torch.compile": "before", "ours": "after"}


def compared(steps: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    report = _read(REPORT) or {"rows": []}
    predictions = _read(PREDICTIONS) or {"devices": {}}
    return {
        "kernels": list(kernels(steps, place, report)),
        "models": list(models(steps, place, predictions)),
        "report_by_triton": report.get("triton"),
        "predictions_by_torch": predictions.get("torch"),
        "predictions_of_this_source": predictions.get("source") == source(PREDICTED),
    }


def kernels(steps: dict[str, Any], place: dict[str, Any], report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One line for each configuration that ran, or was refused, and that the report has for this target."""
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in report["rows"]:
        if row["target"] == place["target"]:
            rows.setdefault((row["kernel"], row["dtype"], row["configuration"]), []).append(row)
    for step, outcome in steps.items():
        verb, _, kernel = step.partition(" ")
        for dtype, told in outcome.get("dtypes", {}).items() if verb == "tune" else ():
            for one in told["configurations"]:
                predicted = rows.get((kernel, dtype, one["name"]))
                if predicted is None:
                    continue
                line = {"kernel": kernel, "dtype": dtype, "configuration": one["name"]}
                yield {**line, **_launched(one, predicted), **_timed(one, told)}


def _launched(ran: dict[str, Any], predicted: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether it launches at all, and whether its resources are those that were told."""
    runs = all("error" not in row and row["blocks_per_sm"] > 0 for row in predicted)
    if "refused" in ran or not runs:
        return {"launches_predicted": runs, "launches": "refused" not in ran}
    pairs = list(zip(ran["launches"], sorted(predicted, key=lambda row: int(row["launch"])), strict=False))
    return {
        "launches_predicted": True,
        "launches": True,
        "registers": [one["registers"] for one, _ in pairs],
        "registers_predicted": [row["registers"] for _, row in pairs],
        "shared_bytes": [one["shared_bytes"] for one, _ in pairs],
        "shared_bytes_predicted": [row["shared_bytes"] for _, row in pairs],
        "spills": any(one["local_bytes"] > 0 for one, _ in pairs),
        "spills_predicted": any(row["spills"] > 0 for _, row in pairs),
    }


def _timed(ran: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """By the bound of the device that is here. Below one: the bound, or the clock, is wrong."""
    if "median_us" not in ran:
        return {}
    times = {"median_us": ran["median_us"]}
    if "bound_us" in told:
        times |= {"bound_us": told["bound_us"], "over_bound": ran["median_us"] / told["bound_us"]}
    return times


def models(steps: dict[str, Any], place: dict[str, Any], predictions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Predictions are of the graphs in float32."""
    of_device = predictions["devices"].get(place.get("roof"), {})
    for step, outcome in steps.items():
        verb, _, rest = step.partition(" ")
        name, _, precision = rest.partition(" ")
        if verb != "model" or precision != "float32" or name not in of_device:
            continue
        for contender, side in SIDES.items():
            ran = outcome.get("contenders", {}).get(contender, {})
            if "median_us" in ran:
                lower, upper = of_device[name][side]["predicted_ms"]
                ms = ran["median_us"] / 1e3
                line = {"model": name, "contender": contender, "median_ms": ms, "predicted_ms": [lower, upper]}
                yield {**line, "within": lower <= ms <= upper}


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
