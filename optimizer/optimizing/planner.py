"""Proposes candidates from what the graph, the machine and the policy show. Pure: it starts nothing and times nothing.

A rewrite is a proposal and a measurement decides, per model: merging tables gains on one ranker and loses on the next.
So the planner proposes every engine alone (the peers), every engine with all rewrites that applied, and, once an engine
leads, that engine without each rewrite in turn. What it does not propose it names, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from optimizer.optimizing import cuda_graphs
from optimizer.optimizing.pass_targets import matched_only
from optimizer.result import Candidate, Rewrite
from optimizer.spec import (
    PRECISIONS,
    BackendStep,
    KeepFloat32,
    PassStep,
    Policy,
    PrecisionStep,
    RuntimeSettings,
    RuntimeStep,
    Step,
    dump_step,
)

INDUCTOR_MARGIN = 1.15  # beyond what one screening may be off by
# Those that lead most often first; torch.compile last: it costs seconds in each fresh process.
BACKEND_ORDER = ("eager", "aot_inductor", "openvino", "onnxruntime", "inductor")
# Engines whose own default deserves a second try. ONNX Runtime's levels can each lose (or be wrong) on some model.
OPTION_VARIANTS: dict[str, list[dict[str, object]]] = {"onnxruntime": [{"level": "extended"}, {"level": "basic"}]}
STATIC_OPENVINO: dict[str, object] = {"static": True}
STATIC_NAME = "openvino static=True"
RECORDED: dict[str, object] = {"cuda_graphs": True}
# int8 as a user has it without us; torchao in both flows of its documentation.
INT8_PEERS: tuple[tuple[str, dict[str, object]], ...] = (
    ("aot_inductor", {}),
    ("onnxruntime", {}),
    ("torchao", {}),
    ("torchao", {"flow": "pt2e"}),
)
NOTHING = KeepFloat32()
INT8 = PrecisionStep(precision="int8")
NO_FLOAT32 = "policy and workload do not both allow float32"
MAX_STATIC_SIZES = 4  # each is compiled again whenever a process loads the model
# Exact passes that clean the graph up so that others match; alone they rarely change what a compiler emits.
TIDYING = frozenset(
    {"remove_noops", "eliminate_common_subexpressions", "hoist_constants", "constant_folding", "dead_code"}
)
# What a rewritten graph is worth trying on first: where fused code is generated from it.
REWRITTEN_ORDER = ("aot_inductor", "openvino", "onnxruntime", "eager", "inductor")
# An engine that loses this much by itself is not saved by rewrites that the others get as well.
WORTH_REWRITING = 0.8


@dataclass(frozen=True)
class Facts:
    """What is known before anything was compiled."""

    format: str
    baseline_backend: str
    backends: dict[str, str | None]  # name: None when it can be used, else why not
    settings: RuntimeSettings
    policy: Policy
    bfloat16_refusal: str | None
    serve_sizes: int = 0  # how many sizes production calls it with; 0 where no dimension varies
    target: str = "cpu"
    threads: int | None = None
    int8_refusal: str | None = None
    launch_bound: str | None = None  # what shows that launching kernels bounds a call


@dataclass(frozen=True)
class Dropped:
    """A candidate that is not tried, and why."""

    candidate: Candidate
    reason: str


class LeftOut(NamedTuple):
    """The plan `whole`, and the same `without` some of its `steps`: what these give is the quotient of their times."""

    steps: list[Step]
    without: Candidate
    whole: Candidate


@dataclass
class Planner:
    """`rewrites` are what the passes did to the graph; the peers are proposed without them."""

    facts: Facts
    rewrites: Sequence[Rewrite] = ()
    dropped: list[Dropped] = field(default_factory=list)
    blamed: set[str] = field(default_factory=set)  # passes whose graph was wrong here: they are not proposed again

    def peers(self) -> list[Candidate]:
        """Each engine that a user could pick, without our rewrites."""
        candidates = []
        for backend in self._usable(BACKEND_ORDER, peer=True):
            if backend == self.facts.baseline_backend:
                continue
            candidates.append(self._candidate(backend, (), peer=True, why="an engine without rewrites"))
        if self.facts.format == "onnx" and self.facts.baseline_backend in self.facts.backends:
            for options in OPTION_VARIANTS.get(self.facts.baseline_backend, []):
                candidates.append(
                    self._candidate(
                        self.facts.baseline_backend, (), peer=True, options=options, why="another level of the runtime"
                    )
                )
        candidates += self._static_openvino([c.name for c in candidates])
        candidates += self._recorded(())
        return candidates if self._computes("float32") else self._without_float32(candidates)

    def _computes(self, precision: str) -> bool:
        return precision in self.facts.policy.precisions

    def _without_float32(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        self.dropped += [Dropped(candidate, NO_FLOAT32) for candidate in candidates]
        return []

    def _recorded(self, passes: Sequence[PassStep]) -> list[Candidate]:
        """On a CUDA target torch.compile with its kernels recorded once and replayed, where that can pay."""
        reason = cuda_graphs.refusal(self.facts.target, self.facts.launch_bound, self.facts.serve_sizes)
        if reason == "" or "inductor" not in self._usable(("inductor",)):
            return []
        why = f"recorded kernels: {self.facts.launch_bound}" if reason is None else ""
        candidate = self._candidate("inductor", passes, peer=not passes, options=RECORDED, why=why)
        if reason is None:
            return [candidate]
        self.dropped.append(Dropped(candidate, reason))
        return []

    def _static_openvino(self, peers: Sequence[str]) -> list[Candidate]:
        """OpenVINO compiled for each size that is served. Where no dimension varies its model is static anyway."""
        if "openvino" not in peers or not self.facts.serve_sizes:
            return []
        why = "fixed shapes for the sizes that are served"
        candidate = self._candidate("openvino", (), peer=True, options=STATIC_OPENVINO, why=why)
        if self.facts.serve_sizes <= MAX_STATIC_SIZES:
            return [candidate]
        reason = f"each start would compile the model for {self.facts.serve_sizes} sizes; {MAX_STATIC_SIZES} at most"
        self.dropped.append(Dropped(candidate, reason))
        return []

    def first_rewritten(self) -> list[Candidate]:
        """The rewritten graph on the engine that makes most of it: what the others are then tried against."""
        if not self.passes() or not self._computes("float32"):
            return []
        usable = self._usable(REWRITTEN_ORDER)
        # a recorded graph is a candidate of its own: what launches cost, no other engine can show
        return [*self._rewritten(usable[:1]), *self._recorded(self.passes())]

    def more_rewritten(
        self, screened: Mapping[str, float], untimed: Mapping[str, str] | None = None
    ) -> list[Candidate]:
        """The rewritten graph on each other engine that holds its own without.

        `screened`: speedup by name; `untimed`: by name, why a candidate was not tried or not built in time.
        """
        if not self.passes() or not self._computes("float32"):
            return []
        best = max([1.0, *screened.values()])
        chosen = []
        for candidate in self._rewritten(self._usable(REWRITTEN_ORDER)[1:]):
            backend = candidate.steps[-1].backend  # type: ignore[union-attr]
            alone = 1.0 if backend == self.facts.baseline_backend else screened.get(backend)
            if backend == "openvino" and screened.get(STATIC_NAME, 0.0) > (alone or 0.0):
                alone = screened[STATIC_NAME]
                candidate = self._candidate(backend, self.passes(), options=STATIC_OPENVINO, why=candidate.why)
            reason = None
            if alone is None and untimed and backend in untimed:
                reason = f"{backend} by itself was not timed: {untimed[backend]}"
            elif alone is None:
                reason = f"{backend} by itself gave no correct and timed answer"
            elif backend == "inductor" and alone < INDUCTOR_MARGIN * screened.get("aot_inductor", 0.0):
                reason = (
                    "its code is what AOTInductor packages, and by itself it was not faster than that on this model"
                )
            elif alone < WORTH_REWRITING * best:
                reason = f"{backend} by itself reaches {alone / best:.0%} of the fastest engine's speed"
            if reason is None:
                chosen.append(candidate)
            else:
                self.dropped.append(Dropped(candidate, reason))
        return chosen

    def _rewritten(self, backends: Sequence[str]) -> list[Candidate]:
        why = "rewrites applied: " + ", ".join(step.pass_ for step in self.passes())
        return [self._candidate(backend, self.passes(), why=why) for backend in backends]

    def low_precision(self) -> list[Candidate]:
        """bfloat16 and the engines' int8, where the policy allows it and the processor has it."""
        step, why = PrecisionStep(precision="bfloat16"), "bfloat16 is allowed by the policy"
        candidates = [
            self._candidate(backend, passes, low=step, peer=not passes, why=why)
            for passes in ([self.passes(), ()] if self.passes() else [()])
            for backend in self._usable(("openvino", "aot_inductor", "inductor"))
        ]
        low = self._unless(self.facts.bfloat16_refusal, candidates) if self._computes("bfloat16") else []
        return [*low, *self._int8_peers()]

    def _int8_peers(self) -> list[Candidate]:
        """int8 as a user has it without us: ONNX Runtime's own, torchao's, and all linear layers rewritten."""
        if not self._computes("int8"):
            return []
        why = "int8 is allowed by the policy"
        usable = self._usable(("aot_inductor", "onnxruntime")) + self._usable(("torchao",), peer=True, low=INT8)
        peers = [
            self._candidate(backend, (), low=INT8, peer=True, options=options, why=why)
            for backend, options in INT8_PEERS
            if backend in usable
        ]
        return self._unless(self.facts.int8_refusal, peers)

    def by_layer(self, step: PrecisionStep, rest_keep: KeepFloat32 | None = NOTHING) -> list[Candidate]:
        """The rewritten graph in a lower precision, but for the layers that were measured and not chosen. What is not
        int8 is in float32, and where that may be, in bfloat16 but for `rest_keep` (None: that gains nothing). All of it
        in bfloat16 is what `low_precision` has, too, by that name."""
        refusals = {"bfloat16": self.facts.bfloat16_refusal, "int8": self.facts.int8_refusal}
        precision = step.precision
        if not self._computes(precision) or refusals[precision] is not None or self.facts.target != "cpu":
            return []
        steps = [step]
        if precision == "int8" and self._computes("bfloat16") and self.facts.bfloat16_refusal is None:
            rest = {"rest": "bfloat16", "rest_keep_float32": rest_keep}
            steps += [step.model_copy(update=rest)] if rest_keep is not None else []
        named = step != PrecisionStep(precision="bfloat16")
        why = f"{precision} in the layers that gain from it, within the bound"
        return [
            self._candidate(backend, self.passes(), low=one, by_layer=named, why=why)
            for one in steps
            for backend in self._usable(("aot_inductor",))
        ]

    def _unless(self, refusal: str | None, candidates: Sequence[Candidate]) -> list[Candidate]:
        if refusal is None:
            return list(candidates)
        self.dropped += [Dropped(candidate, refusal) for candidate in candidates]
        return []

    def without_settings(self, best: Candidate) -> LeftOut | None:
        """The leader in a process with default settings; None when it has no others."""
        settings = [step for step in best.steps if isinstance(step, RuntimeStep)]
        return _left_out(best, settings, "runtime settings") if settings else None

    def leave_one_out(self, best: Candidate) -> list[LeftOut]:
        """The leader without each of its rewrites in turn; the tidying ones, which only prepare others, go together.

        Those that change the arithmetic come first: they are known to lose on some models.
        """
        weight = {r.pass_: (r.numerics == "exact", -len(r.applied)) for r in self.rewrites}
        steps = [step for step in best.steps if isinstance(step, PassStep)]
        telling = [step for step in steps if not tidying([step])]
        telling.sort(key=lambda step: weight.get(step.pass_, (True, 0)))
        tidy: list[Step] = [step for step in steps if tidying([step])]
        return [
            *(_left_out(best, [step], step.pass_) for step in telling),
            *([_left_out(best, tidy, "tidying")] if tidy else []),
        ]

    def passes(self) -> tuple[PassStep, ...]:
        return tuple(
            PassStep(pass_=r.pass_, options=r.options)
            for r in self.rewrites
            if r.applied and r.pass_ not in self.blamed | matched_only(self.facts.target, self.facts.threads)
        )

    def _usable(self, order: Sequence[str], peer: bool = False, low: PrecisionStep | None = None) -> list[str]:
        """Backends of `order` that policy and machine allow; the others are filed as dropped, once."""
        chosen = []
        for backend in order:
            if backend not in self.facts.backends:
                continue
            allowed = self.facts.policy.backends
            reason = self.facts.backends[backend]
            if allowed is not None and backend not in allowed:
                reason = "the policy does not name this backend"
            if reason is None:
                chosen.append(backend)
            elif peer:
                self.dropped.append(Dropped(self._candidate(backend, (), low=low, peer=True), reason))
        return chosen

    def _candidate(
        self,
        backend: str,
        passes: Sequence[PassStep],
        *,
        low: PrecisionStep | None = None,
        by_layer: bool = False,
        options: dict[str, object] | None = None,
        peer: bool = False,
        why: str = "",
    ) -> Candidate:
        steps: list[Step] = [*_runtime(self.facts.settings), *passes]
        if low is not None:
            steps.append(low)
        steps.append(BackendStep(backend=backend, options=dict(options or {})))
        label = backend + "".join(f" {k}={v}" for k, v in (options or {}).items())
        words: list[str] = []
        if low is not None:
            words = [low.precision + " by layer" * by_layer, *([low.rest] if low.rest != "float32" else [])]
        name = " + ".join([label, *words, *(["rewrites"] if passes else [])])
        return Candidate(name=name, steps=steps, peer=peer, why=why)


def _left_out(whole: Candidate, steps: Sequence[Step], label: str) -> LeftOut:
    rest = [step for step in whole.steps if step not in steps]
    why = f"{whole.name} without {label}"
    return LeftOut(list(steps), Candidate(name=f"{whole.name} - {label}", steps=rest, why=why, peer=whole.peer), whole)


def costliest_first(
    asked: Sequence[LeftOut], measured: Sequence[LeftOut], speedups: Mapping[str, float]
) -> list[LeftOut]:
    """Those first whose steps `measured` missed most (`speedups`: by name); last, as they came, those not measured."""
    cost = {
        _documents(one.steps): speedups[one.whole.name] / speedups[one.without.name]
        for one in measured
        if one.whole.name in speedups and one.without.name in speedups
    }
    return sorted(asked, key=lambda one: -cost.get(_documents(one.steps), 0.0))


def on_larger_plan(asked: LeftOut, built: Sequence[LeftOut]) -> LeftOut | None:
    """The same steps left out of a plan that has all of `asked`'s and more; None where none is among `built`."""
    for one in built:
        if one.whole.name == asked.whole.name or _documents(one.steps) != _documents(asked.steps):
            continue
        if all(step in one.whole.steps for step in asked.whole.steps):
            return one
    return None


def _runtime(settings: RuntimeSettings) -> list[Step]:
    return [] if settings == RuntimeSettings() else [RuntimeStep(runtime=settings)]


def precision_of(candidate: Candidate) -> str:
    return next((step.precision for step in candidate.steps if isinstance(step, PrecisionStep)), "float32")


def no_less_precise(than: Candidate) -> frozenset[str]:
    """The precisions of what is a fair peer of a candidate: its own, and those that are more precise."""
    return frozenset(PRECISIONS[: 1 + [str(p) for p in PRECISIONS].index(precision_of(than))])


def has_passes(candidate: Candidate) -> bool:
    return any(isinstance(step, PassStep) for step in candidate.steps)


def by_itself(candidate: Candidate, others: Sequence[Candidate]) -> Candidate | None:
    """The same engine, settings and precision without passes, where it is among `others`."""
    bare = [step for step in candidate.steps if not isinstance(step, PassStep)]
    return next((c for c in others if _documents(c.steps) == _documents(bare)), None)


def culprits_first(
    left_out: Sequence[LeftOut], rewrites: Sequence[Rewrite], diverging: str | None, blamed: set[str]
) -> tuple[list[LeftOut], bool]:
    """What a plan that failed is worth trying without, in this order; and whether the first is suspected.

    `diverging` is the first operation that departs, `operation (node, file:line)`: the pass that rewrote that node, or
    at least that line, is the suspect. What would leave no telling pass is the engine alone, and is not tried.
    """
    worth = [one for one in left_out if any(isinstance(s, PassStep) and not tidying([s]) for s in one.without.steps)]
    node, _, source = (diverging or "").rpartition("(")[2].rstrip(")").partition(", ")
    ranks = {}
    for rewrite in rewrites:
        at_node = bool(node) and any(site.node == node for site in rewrite.applied)
        at_line = bool(source) and any(site.source == source for site in rewrite.applied)
        ranks[rewrite.pass_] = 0 if rewrite.pass_ in blamed else 1 if at_node else 2 if at_line else 3

    def rank(one: LeftOut) -> int:
        return min(ranks.get(step.pass_, 3) for step in one.steps if isinstance(step, PassStep))

    ordered = sorted(worth, key=rank)
    return ordered, bool(ordered) and rank(ordered[0]) < 3


def tidying(steps: Sequence[Step]) -> bool:
    return all(isinstance(step, PassStep) and step.pass_ in TIDYING for step in steps)


def same_steps(a: Candidate, b: Candidate) -> bool:
    return _documents(a.steps) == _documents(b.steps)


def _documents(steps: Sequence[Step]) -> str:
    return json.dumps([dump_step(step) for step in steps], sort_keys=True)
