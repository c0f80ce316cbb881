"""`{% load results %}`: figures that only results have.

{{ output.error|scientific }}  {{ operation.flops|count }}  {{ shapes|shapes }}  {{ kernel.nodes|nodes }}
{{ kernel.bound_us|us }}  {{ kernel|loads }}  {{ row.lower_ms|more_ms }}  {{ row.bytes_moved|more_bytes }}
{{ evidence|facts }}  {{ gain.evidence|gain_evidence }}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fuseworks.core import figures
from fuseworks.results.reading import predicted
from fuseworks.results.reading.conditions import in_words
from optimizer.result import GraphNode

register = template.Library()
register.filter("us", predicted.microseconds)


def whole(value: Any) -> str:
    found = figures.number(value)
    return figures.MISSING if found is None else f"{found:,.0f}"


# what the rules of `optimizer/diagnosing/rules` give as evidence: its name for a reader, and how its value is told
EVIDENCE: dict[str, tuple[Any, Callable[[Any], str]]] = {
    "op": (gettext_lazy("operation"), in_words),
    "share": (gettext_lazy("share of the time"), figures.percent),
    "self_ms": (gettext_lazy("time a call"), figures.milliseconds),
    "calls": (gettext_lazy("calls"), in_words),
    "module": (gettext_lazy("module"), in_words),
    "source": (gettext_lazy("at"), in_words),
    "attainable_share": (gettext_lazy("of the machine's roof"), figures.percent),
    "page_faults_per_call": (gettext_lazy("page faults a call"), whole),
    "predicted_cost_ms": (gettext_lazy("estimated cost"), figures.milliseconds),
    "pass": (gettext_lazy("rewriting pass"), in_words),
    "sites": (gettext_lazy("places"), in_words),
    "sources": (gettext_lazy("at"), in_words),
    "share_of_time": (gettext_lazy("share of the time"), figures.percent),
    "notes": (gettext_lazy("notes"), in_words),
}

# `optimizer.result.GainEvidence`: what a realised gain rests on
GAIN_EVIDENCE = {
    "judgement": gettext_lazy("the judgement, the original in both settings"),
    "ablation": gettext_lazy("ablation, the winner without it"),
    "finalists": gettext_lazy("the choice among finalists, not judged"),
    "screening": gettext_lazy("the screening, not judged"),
}


@register.filter
def gain_evidence(value: str) -> Any:
    return GAIN_EVIDENCE.get(value, value)


@register.filter
def scientific(value: Any) -> str:
    """An error: `1.94e-06`."""
    found = figures.number(value)
    return figures.MISSING if found is None else f"{found:.2e}"


@register.filter
def count(value: Any) -> str:
    """Many of something: `839 M`."""
    found = figures.number(value)
    if found is None:
        return figures.MISSING
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if found >= unit:
            return f"{figures.three_digits(found / unit)} {name}"
    return f"{found:.0f}"


@register.filter
def shapes(value: Sequence[Sequence[int]]) -> str:
    """The first four: `128×100×256, 128×256`."""
    shown = ["×".join(map(str, shape)) or "scalar" for shape in value[:4]]
    return ", ".join(shown + (["…"] if len(value) > 4 else []))


@register.filter
def nodes(value: Sequence[GraphNode]) -> str:
    """The first six, each by its operation where it has one: `linear, relu ×2`."""
    counts: dict[str, int] = {}
    for node in value:
        name = node.op or node.node
        counts[name] = counts.get(name, 0) + 1
    shown = [name if count == 1 else f"{name} ×{count}" for name, count in list(counts.items())[:6]]
    return ", ".join(shown + (["…"] if len(counts) > 6 else []))


@register.filter
def facts(value: Mapping[str, Any]) -> str:
    """Evidence in one line: `places: 5, at: din.py:51`. What the rules leave empty is left out."""
    told = []
    for key, one in value.items():
        if one is None or one == []:
            continue
        label, shown = EVIDENCE.get(key, (key.replace("_", " "), in_words))
        told.append(_("%(what)s: %(value)s") % {"what": label, "value": shown(one)})
    return ", ".join(told)


@register.filter
def loads(kernel: Any) -> str:
    """Loads of 128 bits, out of all: `4 of 5`."""
    return _("%(wide)s of %(all)s") % {"wide": kernel.vector_loads, "all": sum(kernel.loads.values())}


@register.filter
def more_ms(value: float) -> str:
    """A difference of times, with its sign."""
    return predicted.signed(value, figures.milliseconds(value))


@register.filter
def more_bytes(value: int) -> str:
    return predicted.signed(value, figures.size(value))


@register.filter
def more(value: int) -> str:
    return predicted.signed(value, str(value))
