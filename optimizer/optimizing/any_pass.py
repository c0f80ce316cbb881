"""What passes over torch graphs and over ONNX graphs share: how one describes itself, is found, configured and fails.

No torch and no onnx here: each kind has a base of its own, which says what a pass does to its graphs.
"""

from __future__ import annotations

import inspect
import traceback
from abc import ABC
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

import optimizer.optimizing.errors  # noqa: F401
from kernels.registry import Registry, UnknownName
from optimizer.errors import FuseworksError
from optimizer.optimizing.identity import source_identity


class PassOptions(BaseModel):
    """Options of a pass: frozen, described, and an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AnyPass(ABC):
    """One rewrite. `order` is its place in the standard order; `numerics` says whether results stay bit-exact in
    exact arithmetic order (`exact`, up to the shapes of GEMMs) or sums are regrouped (`reassociates`)."""

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    numerics: ClassVar[Literal["exact", "reassociates"]]
    order: ClassVar[int]

    class Options(PassOptions):
        """No options."""

    @property
    def identity(self) -> str:
        """Digest of the pass's source and its helpers': a cache keyed without it goes stale when one changes."""
        return source_identity(inspect.getfile(type(self)))

    def manifest(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "summary": self.summary,
            "options_schema": self.Options.model_json_schema(),
            "numerics": self.numerics,
            "order": self.order,
            "identity": self.identity,
        }


PassT = TypeVar("PassT", bound=AnyPass)
GivenStep = tuple[str, dict[str, Any]]


def in_standard_order(registry: Registry[PassT]) -> list[PassT]:
    return sorted(registry, key=lambda p: (p.order, p.name))


def steps_of(documents: Iterable[dict[str, Any]] | None) -> list[GivenStep] | None:
    """`[{pass, options}]` as requests have it, taken apart; None stays None: every pass."""
    return None if documents is None else [(str(d["pass"]), dict(d.get("options") or {})) for d in documents]


def resolved(registry: Registry[PassT], steps: Iterable[GivenStep] | None) -> list[tuple[PassT, PassOptions]]:
    """(pass, its options, defaults filled in) for each step; None: every pass, in standard order.

    All are checked before the first is run. Raises FuseworksError `optimizing:user:unknown-pass`, `bad-options`.
    """
    if steps is None:
        steps = [(one.name, {}) for one in in_standard_order(registry)]
    return [_resolve(registry, name, options) for name, options in steps]


def _resolve(registry: Registry[PassT], name: str, options: dict[str, Any]) -> tuple[PassT, PassOptions]:
    try:
        found = registry.get(name)
    except UnknownName:
        raise FuseworksError("optimizing:user:unknown-pass", name=name, known=", ".join(registry.names())) from None
    try:
        return found, found.Options.model_validate(options)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'options'}: {e['msg']}" for e in error.errors())
        raise FuseworksError("optimizing:user:bad-options", name=name, text=problems) from None


@contextmanager
def ours_to_blame(one: AnyPass) -> Iterator[None]:
    """Any exception of a pass is our fault and costs this candidate only. Raises FuseworksError
    `optimizing:ours:pass-failed`, or what the pass itself raised with an id."""
    try:
        yield
    except FuseworksError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:1000]
        detail = traceback.format_exc()
        raise FuseworksError("optimizing:ours:pass-failed", name=one.name, text=text, detail=detail) from error
