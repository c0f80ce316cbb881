"""Makes candidates runnable: rewrites the graph, builds the artifact, starts a child with it loaded. All memoised."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from optimizer.compiling import pairs
from optimizer.coordinator import build_keys
from optimizer.coordinator.capture import Captured
from optimizer.coordinator.context import BUILD_TIMEOUT_S, LOAD_TIMEOUT_S, RunContext
from optimizer.errors import FuseworksError
from optimizer.optimizing.pass_targets import matched_only
from optimizer.result import Candidate, Rewrite
from optimizer.sandbox import Child, Reply
from optimizer.spec import (
    BackendStep,
    PassStep,
    Precision,
    PrecisionStep,
    RuntimeSettings,
    RuntimeStep,
    Step,
    dump_step,
)


@dataclass(frozen=True)
class Plan:
    """A candidate's steps, taken apart by kind."""

    settings: RuntimeSettings
    passes: tuple[PassStep, ...]
    precision: PrecisionStep | None
    backend: BackendStep

    @classmethod
    def of(cls, candidate: Candidate) -> Plan:
        settings, passes, precision, backend = RuntimeSettings(), [], None, None
        for step in candidate.steps:
            if isinstance(step, RuntimeStep):
                settings = step.runtime
            elif isinstance(step, PassStep):
                passes.append(step)
            elif isinstance(step, PrecisionStep):
                precision = step
            else:
                backend = step
        if backend is None:
            raise ValueError(f"candidate {candidate.name} has no backend step")
        return cls(settings, tuple(passes), precision, backend)

    @property
    def precision_name(self) -> Precision:
        return self.precision.precision if self.precision else "float32"

    def steps(self) -> list[Step]:
        """What decides the artifact: not the settings of the process."""
        return [*self.passes, *([self.precision] if self.precision else []), self.backend]

    def build_key(self) -> str:
        # compiled code has its number of threads in it
        threads = [] if self.settings.threads is None else [{"threads": self.settings.threads}]
        return json.dumps([dump_step(step) for step in self.steps()] + threads, sort_keys=True)


@dataclass(frozen=True)
class Rewritten:
    """`promised`: the inputs that must repeat over the batch for `model` to be right."""

    model: Path
    rewrites: list[Rewrite]
    promised: tuple[str, ...] = ()


@dataclass(frozen=True)
class Built:
    """An artifact with what it took. `folder` is None for a backend that runs the graph as it is. `promised`: the
    inputs on whose promise it relies; then the artifact of the engine by itself lies beside it. `reused`: an earlier
    run built it, and `compile_s` is what it took then."""

    plan: Plan
    model: Path
    folder: Path | None
    compile_s: float
    artifact_bytes: int
    details: dict[str, Any]
    promised: tuple[str, ...] = ()
    reused: bool = False


@dataclass(frozen=True)
class Loaded:
    """A child with a contender in it, ready to be called."""

    child: Child
    load_s: float
    inference_precision: str
    libraries: dict[str, str]
    rss_bytes_after_import: int | None = None
    threads: int | None = None


class Workshop:
    """One per captured model."""

    def __init__(self, context: RunContext, captured: Captured) -> None:
        self.context = context
        self.captured = captured
        self._lock = threading.Lock()
        self._keys: dict[str, threading.Lock] = {}
        self._rewritten: dict[str, Rewritten] = {"[]": Rewritten(captured.model, [])}
        self._built: dict[str, Built] = {}
        self._failures: dict[str, FuseworksError] = {}

    def rewrite(self, passes: tuple[PassStep, ...] | None, *, timeout_s: float = BUILD_TIMEOUT_S) -> Rewritten:
        """Runs the passes in a child; None means every pass in its standard order. Raises FuseworksError."""
        key = _steps_key(passes)
        with self._only_once("rewrite " + key):
            self._raise_again("rewrite " + key)
            if key not in self._rewritten:
                with self._remembered("rewrite " + key):
                    self._rewritten[key] = self._rewrite(passes, timeout_s)
                # the passes that applied, by themselves, give this very graph
                applied = (
                    PassStep(pass_=r.pass_, options=r.options)
                    for r in self._rewritten[key].rewrites
                    if r.applied and not (passes is None and r.pass_ in self._matched_only())
                )
                self._rewritten.setdefault(_steps_key(tuple(applied)), self._rewritten[key])
        return self._rewritten[key]

    def _matched_only(self) -> list[str]:
        """Of all passes, those whose rewrites nothing is built from on this target, but that tell what they find."""
        return sorted(matched_only(self.context.target, self.context.threads)) if self.captured.format == "pt2" else []

    def _rewrite(self, passes: tuple[PassStep, ...] | None, timeout_s: float) -> Rewritten:
        folder = self.context.folder("rewritten")
        key = None
        if self.context.cache:
            key = build_keys.rewrite_key(self.captured, passes, [] if passes is not None else self._matched_only())
        kept = self._kept(key, folder)
        fields = kept if kept is not None else self._rewrite_in_child(passes, folder, timeout_s)
        model = folder / f"rewritten.{self.captured.format}"
        try:
            rewrites = [Rewrite.model_validate(r) for r in fields["rewrites"]]
        except (KeyError, TypeError, ValidationError) as error:
            raise FuseworksError("child:user:bad-answer", text=f"bad rewrites: {error}") from error
        asked = self.captured.workload.same_over_batch()
        promised = fields.get("promised") or []
        if promised not in ([], asked):
            raise FuseworksError("child:user:bad-answer", text="it relies on a promise that the workload does not make")
        if kept is None:
            self._keep(key, folder, {"rewrites": fields["rewrites"], "promised": promised})
        return Rewritten(model if model.exists() else self.captured.model, rewrites, tuple(promised))

    def _rewrite_in_child(self, passes: tuple[PassStep, ...] | None, folder: Path, timeout_s: float) -> dict[str, Any]:
        with self.context.child("rewrite", {"model": self.captured.model}) as child:
            reply = child.call(
                "optimizing.rewrite",
                timeout_s=timeout_s,
                collect=folder,
                model=child.path("model"),
                format=self.captured.format,
                passes=None if passes is None else [dump_step(step) for step in passes],
                matched_only=[] if passes is not None else self._matched_only(),
                workload=self._workload(),
            )
        fields: dict[str, Any] = reply.fields
        return fields

    def _kept(self, key: str | None, folder: Path) -> dict[str, Any] | None:
        """What an earlier run left under `key`, its files in `folder`; None where nothing is kept."""
        return None if self.context.cache is None or key is None else self.context.cache.fetch(key, folder)

    def _keep(self, key: str | None, folder: Path, document: dict[str, Any]) -> None:
        if self.context.cache is not None and key is not None:
            self.context.cache.store(key, sorted(folder.iterdir()), document)

    def build(self, candidate: Candidate) -> Built:
        """Rewrites and compiles. Raises FuseworksError. Safe to call from several threads."""
        plan = Plan.of(candidate)
        key = plan.build_key()
        with self._only_once("build " + key):
            self._raise_again("build " + key)
            if key not in self._built:
                with self._remembered("build " + key):
                    self._built[key] = self._build(plan)
        return self._built[key]

    @contextmanager
    def _remembered(self, key: str) -> Iterator[None]:
        """A failure is memoised like a success: what does not compile is not compiled twice."""
        try:
            yield
        except FuseworksError as error:
            self._failures[key] = error
            raise

    def _raise_again(self, key: str) -> None:
        if key in self._failures:
            raise self._failures[key]

    def why_not(self, candidate: Candidate) -> str | None:
        """Why the candidate could not be built; None when it was, or was never begun."""
        error = self._failures.get("build " + Plan.of(candidate).build_key())
        return error.message if error else None

    def is_built(self, candidate: Candidate) -> bool:
        return Plan.of(candidate).build_key() in self._built

    def _build(self, plan: Plan) -> Built:
        rewritten = self.rewrite(plan.passes)
        if rewritten.promised:
            return self._build_guarded(plan, rewritten)
        return self._build_one(plan, rewritten.model)

    def _build_guarded(self, plan: Plan, rewritten: Rewritten) -> Built:
        """With the engine by itself beside it, for the batches that break the promise: often a peer, built already."""
        usual = self._build_one(plan, rewritten.model)
        bare = Plan(plan.settings, (), plan.precision, plan.backend)
        otherwise = self.build(
            Candidate(
                name=f"{plan.backend.backend} where the promise is broken",
                steps=[RuntimeStep(runtime=plan.settings), *bare.steps()],
            )
        )
        folder = self.context.folder(f"guarded-{plan.backend.backend}")
        pairs.put_together(folder, usual.folder, usual.model, otherwise.folder, otherwise.model)
        return replace(
            usual,
            folder=folder,
            artifact_bytes=sum(f.stat().st_size for f in folder.iterdir()),
            details={**usual.details, "otherwise": otherwise.details, "promised": list(rewritten.promised)},
            promised=rewritten.promised,
        )

    def _build_one(self, plan: Plan, model: Path) -> Built:
        if plan.backend.backend in {"eager", "eager_step"} and not plan.passes and plan.precision is None:
            return Built(plan, model, folder=None, compile_s=0.0, artifact_bytes=model.stat().st_size, details={})
        folder = self.context.folder(f"built-{plan.backend.backend}")
        fields, reused = self._compiled(plan, model, folder, self.context.build_timeout_s())
        sizes = [f.stat().st_size for f in folder.iterdir()]
        compile_s = fields.get("compile_s")
        return Built(
            plan=plan,
            model=model,
            folder=folder if sizes else None,
            compile_s=float(compile_s) if isinstance(compile_s, (int, float)) else 0.0,
            artifact_bytes=sum(sizes) if sizes else model.stat().st_size,
            details=dict(fields.get("details") or {}),
            reused=reused,
        )

    def _compiled(
        self, plan: Plan, model: Path, folder: Path, timeout_s: float, *, marked: bool = False
    ) -> tuple[dict[str, Any], bool]:
        """Leaves the artifact's files in `folder`: those of an earlier run where it built the very same. Raises
        FuseworksError."""
        threads, target = self.context.threads_of(plan.settings), self.context.target
        key = None
        if self.context.cache is not None:
            parts = (plan.passes, plan.precision, plan.backend)
            key = build_keys.build_key(self.captured, *parts, threads=threads, target=target, marked=marked)
        fields = self._kept(key, folder)
        with self._lock:
            self.context.artifacts_reused += fields is not None
            self.context.artifacts_built += fields is None
        if fields is not None:
            return fields, True
        reply = self._compile(plan, model, folder, timeout_s, marked=marked)
        fields = {name: reply.fields.get(name) for name in ("compile_s", "details")}
        self._keep(key, folder, fields)
        return fields, False

    def _compile(self, plan: Plan, model: Path, folder: Path, timeout_s: float, *, marked: bool = False) -> Reply:
        """Leaves the artifact's files in `folder`. Raises FuseworksError."""
        inputs = {"model": model}
        if self.context.toolchain is not None:
            inputs["toolchain"] = self.context.toolchain
        with self.context.child("build", inputs, on_device=True) as child, _told_as_a_build(plan):
            return child.call(
                "compiling.build",
                timeout_s=timeout_s,
                collect=folder,
                backend=plan.backend.backend,
                options=plan.backend.options,
                precision=dump_step(plan.precision) if plan.precision else None,
                model=child.path("model"),
                toolchain=child.path("toolchain") if "toolchain" in inputs else None,
                format=self.captured.format,
                workload=self._workload(),
                threads=self.context.threads_of(plan.settings),
                target=self.context.target,
                marked=marked,
            )

    def build_marked(self, candidate: Candidate, *, timeout_s: float) -> Path:
        """A folder with the candidate's artifact once more, of kernels that record themselves: for its profile only.

        Raises FuseworksError.
        """
        plan = Plan.of(candidate)
        folder = self.context.folder(f"marked-{plan.backend.backend}")
        self._compiled(plan, self.rewrite(plan.passes).model, folder, timeout_s, marked=True)
        return folder

    def _only_once(self, key: str) -> threading.Lock:
        with self._lock:
            return self._keys.setdefault(key, threading.Lock())

    def load(
        self, built: Built, settings: RuntimeSettings, *, name: str = "contender", marked: Path | None = None
    ) -> Loaded:
        """Starts a fresh process under `settings` with the artifact in it. `marked`: what it may look at beside.

        Raises FuseworksError.
        """
        inputs: dict[str, Path] = {"model": built.model, **({"marked": marked} if marked is not None else {})}
        if built.folder is not None:
            inputs["artifact"] = built.folder
        as_uploaded = (
            self.captured.weights is not None
            and built.plan.backend.backend == self.captured.baseline_backend
            and not built.plan.passes
            and built.plan.precision is None
        )
        if as_uploaded:
            inputs["upload"] = self.captured.upload
            assert self.captured.weights is not None
            inputs["weights"] = self.captured.weights
        child = self.context.child(name, inputs, settings, on_device=True)
        try:
            paths: dict[str, Any] = {
                name: child.path(name) if name in inputs else None
                for name in ("artifact", "model", "upload", "weights")
            }
            reply = child.call(
                "compiling.load",
                timeout_s=LOAD_TIMEOUT_S,
                backend=built.plan.backend.backend,
                options=built.plan.backend.options,
                precision=dump_step(built.plan.precision) if built.plan.precision else None,
                **paths,
                upload_format=self.captured.upload_format,
                seed=self.captured.seed,
                format=self.captured.format,
                workload=self._workload(),
                threads=self.context.threads_of(settings),
                target=self.context.target,
                promised=list(built.promised),
                denormals=settings.denormals,
            )
        except BaseException:
            child.kill()
            raise
        fields: dict[str, Any] = reply.fields
        return Loaded(
            child=child,
            load_s=float(fields.get("load_s") or 0.0),
            inference_precision=str(fields.get("inference_precision")),
            rss_bytes_after_import=rss if isinstance(rss := fields.get("rss_bytes_after_import"), int) else None,
            threads=self.context.threads_of(settings) if self.context.target == "cpu" else None,
            libraries={str(k): str(v) for k, v in dict(fields.get("libraries") or {}).items()},
        )

    def _workload(self) -> dict[str, Any]:
        document: dict[str, Any] = self.captured.workload.model_dump(by_alias=True, mode="json")
        return document


@contextmanager
def _told_as_a_build(plan: Plan) -> Iterator[None]:
    """A compiler that takes too long is no endless loop of the model's: it needs more time."""
    try:
        yield
    except FuseworksError as error:
        if error.id != "child:user:timed-out":
            raise
        told = {"engine": plan.backend.backend, "limit_s": error.context.get("limit_s")}
        raise FuseworksError("compiling:user:timed-out", detail=error.detail, **told) from error


def _steps_key(passes: tuple[PassStep, ...] | None) -> str:
    return json.dumps(None if passes is None else [dump_step(step) for step in passes], sort_keys=True)
