"""Steps of a candidate and of an ablation as a page writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from optimizer.spec import LayerShape, Step, dump_step


@dataclass(frozen=True)
class StepWords:
    """`kind`: pass, passes, precision, backend or runtime; `options` reads `freezing=True, threads=2`."""

    kind: str
    name: str
    options: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.name) if part) + (
            f" ({self.options})" if self.options else ""
        )


def step_words(step: Step | Mapping[str, Any]) -> StepWords:
    """Takes a typed step or its document; `{"passes": [...]}` is what an ablation takes away together."""
    document = step if isinstance(step, Mapping) else dump_step(step)
    for kind in ("pass", "precision", "backend"):
        if kind in document:
            rest = {"rest": document["rest"]} if "rest" in document else {}
            rest |= {"weight_only_layers": document["weight_only"]} if "weight_only" in document else {}
            rest |= {f"rest_{key}": kept for key, kept in (document.get("rest_keep_float32") or {}).items()}
            options = {**(document.get("options") or document.get("keep_float32") or {}), **rest}
            return StepWords(kind, str(document[kind]), _listed(options))
    if "passes" in document:
        return StepWords("passes", ", ".join(map(str, document["passes"])), "")
    settings = dict(document.get("runtime") or {})
    return StepWords("runtime", _listed(settings) or _("default settings"), "")


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_value(key, value)}" for key, value in options.items())


def _value(key: str, value: Any) -> str:
    """Of layers, the shapes of their weights and which of their like: `512 to 64 (0, 2)`."""
    return "; ".join(str(LayerShape.model_validate(one)) for one in value) if key.endswith("layers") else str(value)
