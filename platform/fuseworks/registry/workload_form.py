"""The workload as a form: what people change most, field by field, on top of a workload that is there.

Names, types and shapes of the inputs and all that has no field here (samples, labels) come from the workload below it.
What was typed is kept, right or wrong, and every message stands at its field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fuseworks.core.errors import PlatformError
from fuseworks.core.telling import message_of
from fuseworks.registry.services.workloads import workload_document, workload_spec

DEFAULT = "default"
# How many numbers each distribution takes, and what they are called.
KINDS: dict[str, tuple[int, Any, Any]] = {
    DEFAULT: (0, _("default for the type"), _("nothing")),
    "normal": (2, _("normal"), _("mean, standard deviation")),
    "uniform": (2, _("uniform"), _("low, high")),
    "zipf": (1, _("Zipf"), _("exponent")),
    "bernoulli": (1, _("share of ones"), _("share from 0 to 1")),
    "constant": (1, _("constant"), _("value")),
}
PRECISIONS = ("float32", "bfloat16", "int8")
MODES = (("inference", _("inference")), ("training", _("training step")))
LIMITS = {
    "latency_ms": _("Latency (ms)"),
    "peak_memory_bytes": _("Peak memory (bytes)"),
    "max_error": _("Error (centred relative L2)"),
}
GENERAL = ""


@dataclass(frozen=True)
class Shown:
    """One field as the template shows it."""

    name: str
    value: str
    errors: list[str]


@dataclass(frozen=True)
class InputRow:
    name: str
    dtype: str
    shape: str
    kind: Shown
    parameters: Shown
    smallest: Shown
    below: Shown


@dataclass(frozen=True)
class DimRow:
    name: str
    serve: Shown
    min: Shown
    max: Shown


@dataclass
class WorkloadForm:
    """`base` is the document below; `typed` the fields as they came, or as `base` fills them."""

    base: Mapping[str, Any]
    typed: dict[str, str]
    errors: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def filled(cls, base: Mapping[str, Any]) -> WorkloadForm:
        return cls(base, _fill(base))

    @classmethod
    def posted(cls, base: Mapping[str, Any], data: Any) -> WorkloadForm:
        """`data`: the request's POST."""
        typed = {name: data.get(name, "") for name in _fill(base) if not name.startswith("precisions-")}
        typed.update({f"precisions-{p}": "on" if p in data.getlist("precisions") else "" for p in PRECISIONS})
        return cls(base, typed)

    def shown(self, name: str) -> Shown:
        return Shown(name, self.typed.get(name, ""), self.errors.get(name, []))

    @property
    def inputs(self) -> list[InputRow]:
        return [
            InputRow(
                entry["name"],
                entry["dtype"],
                _list(entry["shape"]) or gettext("single value"),
                *(self.shown(f"inputs-{number}-{part}") for part in ("kind", "parameters", "from", "below")),
            )
            for number, entry in enumerate(self.base["inputs"])
        ]

    @property
    def dims(self) -> list[DimRow]:
        return [
            DimRow(name, *(self.shown(f"dims-{number}-{part}") for part in ("serve", "min", "max")))
            for number, name in enumerate(self.base.get("dims", {}))
        ]

    @property
    def limits(self) -> list[tuple[Any, Shown]]:
        return [(label, self.shown(f"limits-{name}")) for name, label in LIMITS.items()]

    @property
    def precisions(self) -> list[tuple[str, bool]]:
        return [(precision, bool(self.typed[f"precisions-{precision}"])) for precision in PRECISIONS]

    @property
    def general(self) -> dict[str, Shown]:
        """The fields that stand alone; `all` holds what belongs to none."""
        found = {name: self.shown(name) for name in ("name", "mode", "precisions", "contracts")}
        return {**found, "all": self.shown(GENERAL)}

    def document(self) -> dict[str, Any] | None:
        """What the form says, valid and normalised, or None with `errors` filled."""
        self.errors = {}
        draft = {**self.base}
        draft["name"] = self.typed["name"].strip()
        draft["mode"] = self.typed["mode"]
        draft["inputs"] = [self._input(n, dict(i)) for n, i in enumerate(self.base["inputs"])]
        draft["dims"] = {name: self._dim(n) for n, name in enumerate(self.base.get("dims", {}))}
        draft["limits"] = self._limits()
        draft["precisions"] = [p for p in PRECISIONS if self.typed[f"precisions-{p}"]]
        lines = [_words(line) for line in self.typed["contracts"].splitlines()]
        draft["contracts"] = [{"same_over_batch": names} for names in lines if names]
        if not draft["precisions"]:
            self._say("precisions", gettext("Choose one at least."))
        if self.errors:
            return None
        try:
            return workload_document(workload_spec(draft))
        except PlatformError as error:
            self.take(error)
            return None

    def take(self, error: PlatformError) -> None:
        """Puts each message of a `registry:user:workload` to the field that it speaks of."""
        for path, messages in error.extra.get("fields", {GENERAL: [message_of(error)]}).items():
            name = self._field_of(path)
            for message in messages:
                self._say(name, message if name != GENERAL or path == GENERAL else f"{path}: {message}")

    def _input(self, number: int, document: dict[str, Any]) -> dict[str, Any]:
        prefix = f"inputs-{number}"
        kind = self.typed[f"{prefix}-kind"]
        values: dict[str, Any] = {}
        if kind not in KINDS:
            self._say(f"{prefix}-kind", gettext("Choose one of the list."))
            return document
        count, _label, meaning = KINDS[kind]
        numbers = self._numbers(f"{prefix}-parameters", float, () if count == 0 else (count,), meaning)
        if count and numbers is not None:
            values[kind] = numbers[0] if count == 1 else numbers
        smallest = self._numbers(f"{prefix}-from", int, (0, 1), gettext("one whole number"))
        if smallest:
            values["from"] = smallest[0]
        below = self._numbers(f"{prefix}-below", int, None, gettext("whole numbers"))
        if below:
            was_list = isinstance((document.get("values") or {}).get("below"), list)
            values["below"] = below if len(below) > 1 or was_list else below[0]
        document.pop("values", None)
        return {**document, "values": values} if values else document

    def _dim(self, number: int) -> dict[str, Any]:
        prefix = f"dims-{number}"
        serve = self._numbers(f"{prefix}-serve", int, None, gettext("whole numbers"))
        low = self._numbers(f"{prefix}-min", int, (1,), gettext("one whole number"))
        high = self._numbers(f"{prefix}-max", int, (1,), gettext("one whole number"))
        if serve == []:
            self._say(f"{prefix}-serve", gettext("Name one size at least."))
        return {"serve": serve or [], "min": low[0] if low else 0, "max": high[0] if high else 0}

    def _limits(self) -> dict[str, Any]:
        limits: dict[str, Any] = {}
        for name in LIMITS:
            kind = int if name == "peak_memory_bytes" else float
            given = self._numbers(f"limits-{name}", kind, (0, 1), gettext("one number, or nothing"))
            if given:
                limits[name] = given[0]
        return limits

    def _numbers(
        self, name: str, kind: type[int] | type[float], counts: tuple[int, ...] | None, meaning: Any
    ) -> list[Any] | None:
        """The numbers of a field; `counts` says how many it may have, () that it is not read. None: not readable."""
        if counts == ():
            return []
        text = self.typed[name]
        try:
            numbers = [kind(word) for word in _words(text)]
        except ValueError:
            numbers = None
        if numbers is None or (counts is not None and len(numbers) not in counts):
            self._say(name, gettext("Write %(what)s.") % {"what": meaning})
            return None
        return numbers

    def _field_of(self, path: str) -> str:
        """The field that shows what stands at a path of the document; GENERAL when none does."""
        parts = path.split(".")
        if parts[0] in ("mode", "name", "precisions", "contracts"):
            return parts[0]
        if parts[0] == "limits" and len(parts) > 1:
            return f"limits-{parts[1]}"
        if parts[0] == "inputs" and len(parts) > 2 and parts[2] == "values":
            inner = parts[3] if len(parts) > 3 else ""
            return f"inputs-{parts[1]}-" + (inner if inner in ("from", "below") else "parameters" if inner else "kind")
        names = list(self.base.get("dims", {}))
        if parts[0] == "dims" and len(parts) > 1 and parts[1] in names:
            inner = parts[2] if len(parts) > 2 and parts[2] in ("serve", "min", "max") else "serve"
            return f"dims-{names.index(parts[1])}-{inner}"
        return GENERAL

    def _say(self, name: str, message: str) -> None:
        self.errors.setdefault(name, []).append(message)


def _fill(base: Mapping[str, Any]) -> dict[str, str]:
    fields = {"name": base.get("name", "serving"), "mode": base.get("mode", "inference")}
    for number, entry in enumerate(base["inputs"]):
        values = entry.get("values") or {}
        kind = next((k for k in KINDS if values.get(k) is not None), DEFAULT)
        prefix = f"inputs-{number}"
        fields[f"{prefix}-kind"] = kind
        fields[f"{prefix}-parameters"] = _list(values.get(kind))
        fields[f"{prefix}-from"] = _list(values.get("from") or None)
        fields[f"{prefix}-below"] = _list(values.get("below"))
    for number, dim in enumerate(base.get("dims", {}).values()):
        for key in ("serve", "min", "max"):
            fields[f"dims-{number}-{key}"] = _list(dim.get(key, 1))
    for name in LIMITS:
        fields[f"limits-{name}"] = _list((base.get("limits") or {}).get(name))
    for precision in PRECISIONS:
        fields[f"precisions-{precision}"] = "on" if precision in (base.get("precisions") or PRECISIONS) else ""
    contracts = base.get("contracts") or []
    fields["contracts"] = "\n".join(_list(contract["same_over_batch"]) for contract in contracts)
    return fields


def _list(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _words(text: str) -> list[str]:
    return _clean(text.replace(";", ",").split(","))


def _clean(words: Iterable[str]) -> list[str]:
    return [word.strip() for word in words if word.strip()]
