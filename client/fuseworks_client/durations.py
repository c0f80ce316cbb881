"""A duration as people type it: `300`, `90s`, `5m`, `1h30m`."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS_S = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        text = str(value).strip().lower()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            text += "s"
        parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
        total = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
        if "".join(number + unit for number, unit in parts) != text or total <= 0:
            self.fail(f"{value!r} is no duration such as 300, 90s, 5m or 1h30m", param, ctx)
        return total
