"""What GPUs measured of the kernels: the files that `make gpu-check` leaves in `kernels/measured/`, one a device.

Dry runs under the interpreter measure nothing and are not looked at. No torch.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("measured")
FIELDS = ("sample", "untuned", "best", "bound_us", "bound_by", "roofline_share", "gigabytes_per_s", "teraflops_per_s")


@functools.cache
def documents(folder: Path = FOLDER) -> tuple[dict[str, Any], ...]:
    """By file name; none where no GPU has run them."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return tuple(one for one in found if one.get("mode") == "gpu")


def of_kernel(name: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """By device: how many cases were right there, and for each dtype the times of its configurations."""
    told = []
    for document in documents(folder):
        steps = document["steps"]
        checked = [steps[step] for step in (f"check {name}", f"edges {name}") if "cases" in steps.get(step, {})]
        dtypes = steps.get(f"tune {name}", {}).get("dtypes", {})
        if checked or dtypes:
            place = {field: document["place"].get(field) for field in ("device", "target", "torch", "triton", "driver")}
            cases = {field: sum(one[field] for one in checked) for field in ("cases", "right")}
            wrong = [one["case"] for step in checked for one in step["wrong"]]
            speeds = [_speed(dtype, one) for dtype, one in dtypes.items()]
            told.append({**place, "date": document["date"], **cases, "wrong": wrong, "speeds": speeds})
    return told


def _speed(dtype: str, told: dict[str, Any]) -> dict[str, Any]:
    times = {one["name"]: one.get("median_us") for one in told["configurations"]}
    known = {field: told.get(field) for field in FIELDS}
    return {
        "dtype": dtype,
        **known,
        "best_us": times.get(told.get("best")),
        "untuned_us": times.get(told["untuned"]),
        "reference_us": told["reference"].get("median_us"),
    }
