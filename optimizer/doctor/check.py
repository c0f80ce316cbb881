"""One answer of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """`costs` is what the lack takes away, `remedy` what mends it; both are empty when all is well."""

    name: str
    state: State
    found: str
    costs: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        if (self.state == "ok") == bool(self.costs):
            raise ValueError(f"{self.name}: a check says what a lack costs, and only then")
