"""Runs torch.export: undecomposed, under no_grad, with the named dimensions dynamic; and explains what it refuses."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.nn.modules import transformer

import optimizer.capturing.errors  # noqa: F401
from optimizer.capturing.torch_inputs import resized, traced_size
from optimizer.capturing.torch_places import Sources
from optimizer.errors import FuseworksError
from optimizer.spec import Dim, InputSpec

_SUGGESTED_RANGE = re.compile(r"^\s*(\w+) = Dim\('\w+'(?:, min=(\d+))?(?:, max=(\d+))?\)", re.MULTILINE)
_SUGGESTED_OTHER = re.compile(r"^\s*(\w+) = (?!Dim\()(.+)$", re.MULTILINE)


@dataclass(eq=False)
class Refusal(Exception):
    """Why one attempt failed. `ranges`: what torch.export would take instead; `fixed`: e.g. `batch = 16`."""

    error: Exception
    place: str | None
    ranges: dict[str, tuple[int | None, int | None]]
    fixed: str | None

    @property
    def reason(self) -> str:
        if self.fixed:
            return f"the code fixes {self.fixed}"
        if self.ranges:
            bounds = [f"{n} within [{low or 1}, {high or 'any'}]" for n, (low, high) in self.ranges.items()]
            return f"the code needs {' and '.join(bounds)}"
        return first_words(self.error)


def export(
    module: torch.nn.Module,
    inputs: list[torch.Tensor],
    specs: list[InputSpec],
    dims: dict[str, Dim],
    sources: Sources,
    *,
    grad: bool = False,
) -> ExportedProgram:
    """Non-strict first, since it names the user's line best; then strict. `grad`: not under no_grad, so that what the
    code says of gradients stays in the graph. Raises Refusal (the first one's)."""
    moving = {name: dim for name, dim in dims.items() if dim.min < dim.max}
    sizes = _traced_sizes(module, specs, dims, moving)
    examples = tuple(resized(inputs, specs, sizes))
    symbols = {name: torch.export.Dim(name, min=dim.min, max=dim.max) for name, dim in moving.items()}
    shapes = [{i: symbols[d] for i, d in enumerate(s.shape) if isinstance(d, str) and d in symbols} for s in specs]
    bound = inspect.signature(module.forward).bind(*range(len(shapes))).arguments
    dynamic = {
        name: tuple(shapes[i] for i in at) if isinstance(at, tuple) else shapes[at] for name, at in bound.items()
    }
    refusals = []
    for strict in (False, True):
        try:
            with torch.set_grad_enabled(grad), masks_unread():
                return torch.export.export(module, examples, dynamic_shapes=dynamic, strict=strict)
        except Exception as error:  # export raises many kinds, some of its own, some of the model's
            traceback.print_exc()
            refusals.append(_refusal(error, sources))
    first, second = refusals
    # dynamo (strict) knows the line at which a dimension was fixed; the non-strict tracer does not
    raise Refusal(first.error, first.place or second.place, first.ranges, first.fixed) from first.error


@contextmanager
def masks_unread() -> Iterator[None]:
    """nn.TransformerEncoder and -Decoder look at a mask's values to find that it is causal, and no graph can branch on
    values (strict export gets past it, but then takes a layer as one operation, which no pass and hardly an engine
    knows). It is a hint for speed alone: without it the mask is added as it is given."""
    read = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = read


def _traced_sizes(
    module: torch.nn.Module, specs: list[InputSpec], dims: dict[str, Dim], moving: dict[str, Dim]
) -> dict[str, int]:
    taken = {d for spec in specs for d in spec.shape if isinstance(d, int)}
    taken |= {size for tensor in [*module.parameters(), *module.buffers()] for size in tensor.shape}
    sizes = {name: dim.min for name, dim in dims.items() if name not in moving}
    for name, dim in moving.items():
        sizes[name] = traced_size(dim.serve[0], dim.min, dim.max, taken | set(sizes.values()))
    return sizes


def _refusal(error: Exception, sources: Sources) -> Refusal:
    text = str(error)
    ranges = {
        name: (int(low) if low else None, int(high) if high else None)
        for name, low, high in _SUGGESTED_RANGE.findall(text)
    }
    fixes = text.partition("Suggested fixes:")[2]
    fixed = ", ".join(f"{name} = {value.strip()}" for name, value in _SUGGESTED_OTHER.findall(fixes))
    return Refusal(error, sources.of_exception(error), ranges, fixed or None)


def explained(refusal: Refusal, sources: Sources) -> FuseworksError:
    """The catalogue's error for a model that cannot be exported even with static shapes."""
    error, text, place = refusal.error, str(refusal.error), refusal.place or sources.shown
    kind = type(error).__name__
    detail = "".join(traceback.format_exception(error))[-8000:]
    words = first_words(error)
    if "Could not extract specialized" in text or kind == "DataDependentOutputException":
        return FuseworksError("capturing:user:data-dependent-value", place=place, detail=detail)
    if "Could not guard on data-dependent" in text or "Data-dependent branching" in text:
        return FuseworksError("capturing:user:data-dependent-branch", place=place, detail=detail)
    unsupported = (
        kind in ("UnsupportedOperatorException", "DynamicOutputShapeException")
        or "is not supported for tensor subclasses" in text
        or "no fake impl" in text
        or "Cannot access data pointer" in text
        or "autograd.Function" in text
    )
    id_ = "capturing:user:unsupported-operation" if unsupported else "capturing:user:not-exportable"
    return FuseworksError(id_, place=place, detail=detail, text=words)


def first_words(error: BaseException, limit: int = 300) -> str:
    """The first paragraph of an exception's text, without torch's advertisements for its own logging."""
    text = str(error).strip() or type(error).__name__
    paragraph = re.split(r"\n\s*\n|For more information", text)[0]
    return " ".join(paragraph.split())[:limit]
