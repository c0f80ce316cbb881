"""Does a recipe apply here, and which recipe does a winner leave behind?

A reason is a sentence for the user; None means that nothing speaks against it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from optimizer.optimizing.planner import tidying
from optimizer.recipe.document import Accept, AppliesTo, GraphCondition, GraphPrecondition, Metadata, Recipe, Target
from optimizer.result import Rewrite, Site
from optimizer.spec import BackendStep, Mode, PassStep, PrecisionStep, Step

MAX_CITED_SITES = 4
# the weakest feature that computes bfloat16 natively comes first: a recipe asks for no more than that
BFLOAT16_FEATURES = ("avx512_bf16", "avx_ne_convert", "amx_bf16", "bf16", "sve_bf16")
INT8_FEATURES = ("avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm")
FEATURES = {"bfloat16": BFLOAT16_FEATURES, "int8": INT8_FEATURES}
_BACKEND_LIBRARIES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "torchao": "torchao"}


@dataclass(frozen=True)
class Machine:
    """What a recipe asks about: the target (`cpu`, `cuda:sm_90`), its ISA features, and the libraries' versions."""

    target: str
    isa: Collection[str]
    libraries: Mapping[str, str]


def check_target(recipe: Recipe, machine: Machine, mode: Mode = Mode.INFERENCE) -> str | None:
    """Mode, kind of target, ISA and toolchain, in this order: the first that does not hold."""
    wanted = recipe.applies_to
    if wanted.mode != mode:
        return f"it is made for {wanted.mode.value}, and this workload is {mode.value}"
    kind, _, arch = machine.target.partition(":")
    if wanted.target.kind != kind:
        return f"it is made for the target {wanted.target.kind}, and this run's target is {machine.target}"
    missing = sorted(set(wanted.target.isa) - set(machine.isa) - {arch})
    if missing:
        return f"it needs the ISA features {', '.join(missing)}, which this machine does not have"
    for library, specifier in wanted.toolchain.items():
        version = machine.libraries.get(library)
        if version is None:
            return f"it needs {library} {specifier}, which is not installed"
        if not SpecifierSet(specifier).contains(Version(version), prereleases=True):
            return f"it needs {library} {specifier}, and {version} is installed"
    return None


def check_graph(recipe: Recipe, rewrites: Sequence[Rewrite]) -> str | None:
    """Whether each condition's pass applied often enough. `rewrites`: what the recipe's passes did to this graph."""
    reasons = []
    for condition in recipe.applies_to.graph.all:
        asked = (condition.options or {}).items()
        own = [r for r in rewrites if r.pass_ == condition.pass_ and all(r.options.get(k) == v for k, v in asked)]
        applied = sum(len(r.applied) for r in own)
        if applied < condition.min_matches:
            refused = [site for r in own for site in r.refused]
            reasons.append(f"{condition.pass_} {_times(applied, condition.min_matches)}: {_cite(own, refused)}")
    return "; ".join(reasons) or None


def _times(applied: int, needed: int) -> str:
    found = {0: "found no match", 1: "matched once"}.get(applied, f"matched {applied} times")
    return f"{found} and needs {needed}"


def _cite(own: Sequence[Rewrite], refused: Sequence[Site]) -> str:
    if not own:
        return "the pass was not run on this graph"
    if not refused:
        return "nothing in this graph looks like its pattern"
    cited = [f"{s.reason} at {s.node}" + (f" ({s.source})" if s.source else "") for s in refused[:MAX_CITED_SITES]]
    more = len(refused) - len(cited)
    return ", ".join(cited) + (f", and {more} more" if more else "")


def recipe_from_candidate(
    steps: Sequence[Step],
    rewrites: Sequence[Rewrite],
    machine: Machine,
    *,
    name: str,
    version: str = "1.0.0",
    title: str = "",
    summary: str = "",
    tags: Iterable[str] = (),
    derived_from: str | None = None,
    mode: Mode = Mode.INFERENCE,
    accept: Accept | None = None,
) -> Recipe:
    """The recipe that a winner leaves: its steps without the passes that changed nothing.

    A pass that applied is a condition (at least one match), except one that merely tidies. Options are written out in
    full, so that a later default changes nothing: a pass's as `rewrites` report them, a backend's as they are given
    (a recipe knows no backends: `coordinator.steps` fills those in). The ISA counts only under a lower precision; the
    toolchain is the minor version that was measured.
    """
    applied = {r.pass_: r for r in rewrites if r.applied}
    idle = {r.pass_ for r in rewrites} - set(applied)
    kept = [_in_full(step, applied) for step in steps if not (isinstance(step, PassStep) and step.pass_ in idle)]
    conditions = [
        GraphCondition.model_validate({"pass": step.pass_})
        for step in kept
        if isinstance(step, PassStep) and step.pass_ in applied and not tidying([step])
    ]
    precision = next((step.precision for step in kept if isinstance(step, PrecisionStep)), "float32")
    isa = features_needed(precision, machine.isa)
    backend = next((step.backend for step in kept if isinstance(step, BackendStep)), "")
    library = _BACKEND_LIBRARIES.get(backend)
    wanted = [lib for lib in ("torch", library) if lib and lib in machine.libraries]
    return Recipe.model_validate(
        {
            "apiVersion": "fuseworks.io/v1",
            "kind": "Recipe",
            "metadata": Metadata(
                name=slug(name),
                version=version,
                title=title,
                summary=summary,
                tags=list(tags),
                derived_from=derived_from,
            ),
            "applies_to": AppliesTo(
                mode=mode,
                target=Target.model_validate({"kind": machine.target.partition(":")[0], "isa": isa}),
                toolchain={lib: minor_range(machine.libraries[lib]) for lib in wanted},
                graph=GraphPrecondition(all=conditions),
            ),
            "steps": kept,
            "accept": accept or Accept(),
        }
    )


def features_needed(precision: str, isa: Collection[str]) -> list[str]:
    """The one feature of this machine, the weakest, without which a precision is not worth its error."""
    return [feature for feature in FEATURES.get(precision, ()) if feature in isa][:1]


def _in_full(step: Step, applied: Mapping[str, Rewrite]) -> Step:
    if not isinstance(step, PassStep) or step.pass_ not in applied:
        return step
    return PassStep.model_validate({"pass": step.pass_, "options": {**applied[step.pass_].options, **step.options}})


def minor_range(version: str) -> str:
    """`2.13.0+cpu` gives `>=2.13,<2.14`."""
    release = (*Version(version).release, 0)[:2]
    return f">={release[0]}.{release[1]},<{release[0]}.{release[1] + 1}"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80].strip("-") or "recipe"
