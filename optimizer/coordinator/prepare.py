"""What every run that measures sets up once: capture, engines, toolchain, profile, rewrites, reference, baseline."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from optimizer import inputs, machine, runtime_settings
from optimizer.benchmarking.bursts import Draw
from optimizer.compiling.base import BACKENDS
from optimizer.compiling.toolchain import default_folder, toolchain_cache
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.capture import Captured, capture
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.rewriting import match_passes
from optimizer.coordinator.workshop import Plan, Workshop
from optimizer.diagnosing.base import Evidence, diagnosed
from optimizer.diagnosing.rules.denormals import MIN_GAIN as DENORMALS_GAIN
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, Conditions, Profile
from optimizer.sandbox import Child, start
from optimizer.spec import BackendStep, Mode, RuntimeSettings, Workload
from optimizer.verifying.training.verify import TrainingVerifier
from optimizer.verifying.verify import Verifier

PROFILE_CALLS = 5
BUSY_LOAD = 2.5  # a run itself makes a load of one to two
TUNED = RuntimeSettings(allocator="glibc-no-trim", huge_pages=True)


@dataclass
class Bench:
    """One captured model with everything that judges its candidates. `close` ends the children it keeps."""

    context: RunContext
    captured: Captured
    shop: Workshop
    answer: Answer
    reference: Child | None = None
    verifier: Verifier | None = None
    roofs: dict[str, Any] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        return self.captured.workload

    def baseline(self, settings: RuntimeSettings) -> Candidate:
        runtime = [] if settings == RuntimeSettings() else [{"runtime": settings}]
        return Candidate.model_validate(
            {
                "name": "baseline",
                "peer": True,
                "why": "the upload as its own framework runs it",
                "steps": [*runtime, BackendStep(backend=self.captured.baseline_backend)],
            }
        )

    def close(self) -> None:
        if self.reference is not None:
            self.reference.kill()
            self.reference = None


def prepare(context: RunContext, answer: Answer, model: Path) -> Bench:
    """Captures. Raises FuseworksError; where the target's device is not here, before anything else is done."""
    context.device()
    captured = capture(context, model, context.spec.workload)
    answer.workload, answer.inspection = captured.workload, captured.inspection
    for ignored in _not_heeded(captured.workload, captured.format):
        answer.note(context, ignored)
    if captured.samples is not None:
        answer.note(context, captured.samples.note())
    return Bench(context, captured, Workshop(context, captured), answer)


def _not_heeded(workload: Workload, format: str) -> list[str]:
    """What a workload may say and this version does not act on: told, never silently passed over."""
    found = []
    if workload.contracts and format == "onnx":
        names = ", ".join(workload.same_over_batch())
        found.append(
            f"The workload's contracts (same_over_batch: {names}) shape the inputs that are drawn, and no more: no "
            "rewrite of an ONNX graph relies on them. Upload the model as a module or as .pt2 to profit from them."
        )
    return found


def drawing(bench: Bench, *key: int) -> Draw:
    """Fresh inputs of the measured size, one set a call: from the captured samples where there are any."""
    rng, workload, samples = bench.context.rng(*key), bench.workload, bench.captured.samples
    if samples is not None:
        return lambda: samples.draw(rng)
    sizes = workload.sizes()
    return lambda: inputs.draw(workload, sizes, rng)


def backends(context: RunContext, captured: Captured) -> dict[str, str | None]:
    """Engines that read this format: None when usable here, else why not."""
    return {b.name: b.unavailable(context.target) for b in BACKENDS if captured.format in b.formats}


def ready_toolchain(context: RunContext) -> None:
    """The compile cache of this host, seeded by a trusted child when it is not there yet."""

    def announced(spec: Any) -> Child:
        context.events.emit(
            "compiling", "Preparing this machine's C++ toolchain cache (once per machine, about a minute)"
        )
        return start(spec)

    try:
        cache = toolchain_cache(announced)
    except FuseworksError as error:
        context.events.emit("log", f"{error.message} {error.remedy}")
        return
    if cache is None:
        context.events.emit("log", "No C++ compiler: Inductor and AOTInductor are left out. Install g++ to have them.")
        return
    context.toolchain = cache.folder


def roofs(context: RunContext) -> dict[str, Any]:
    """What this machine's processor can do at best, measured once per host and thread count; again when it was busy
    that time. Nothing for a GPU."""
    if context.target != "cpu":
        context.events.emit("log", f"The roofs of {context.target} are not measured: no share of them is told.")
        return {}
    fixed = machine.fixed_conditions(target=context.target, threads=context.threads)
    file = default_folder() / f"roofs-{machine.fingerprint(fixed)[:16]}.json"
    known: dict[str, Any] = {}
    if file.exists():
        known = json.loads(file.read_text())
        if known.get("load_average", 0.0) <= BUSY_LOAD:
            return known
    context.events.emit("profiling", "Measuring this machine's bandwidth and GEMM rate (once per machine)")
    load = os.getloadavg()[0]
    try:
        with context.child("roofs", trusted=True) as child:
            measured = child.call("benchmarking.roofs", timeout_s=120.0, threads=context.threads).fields
    except FuseworksError as error:
        # the run goes on without them: the profile then shows no attainable share
        context.events.emit("log", f"The machine's roofs could not be measured: {error.message}")
        return known
    best = _best_of(known, {**measured, "load_average": load})
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(best))
    partial.replace(file)
    return best


def _best_of(known: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A roof is what can be reached: the larger of two measurements."""
    if not known:
        return new
    rates = {k: max(v, known["gemm_flops_per_s"].get(k, 0.0)) for k, v in new["gemm_flops_per_s"].items()}
    bandwidth = max(known["bandwidth_bytes_per_s"], new["bandwidth_bytes_per_s"])
    return {**new, "bandwidth_bytes_per_s": bandwidth, "gemm_flops_per_s": rates}


def profile(bench: Bench, *, timeline: bool = False) -> None:
    """Profiles the baseline in its default settings. A model that cannot be profiled may still be made faster."""
    try:
        _profile(bench, timeline)
    except FuseworksError as error:
        bench.answer.note(bench.context, f"The baseline could not be profiled: {error.message}")


def _profile(bench: Bench, timeline: bool) -> None:
    with bench.context.events.stage("profiling", "Profiling the baseline, operation by operation"):
        bench.roofs = roofs(bench.context)
        baseline = bench.baseline(RuntimeSettings())
        bench.answer.profile = profiled(bench, baseline, timeout_s=300.0, levers=True, timeline=timeline)


def profiled(
    bench: Bench,
    candidate: Candidate,
    *,
    timeout_s: float,
    marked: Path | None = None,
    levers: bool = False,
    timeline: bool = False,
) -> Profile:
    """Where a call of a candidate spends its time, in a process of its own under its own settings.

    `marked`: the artifact to look into, of a candidate whose own kernels record nothing. `levers`: also what settings
    of the process would change. `timeline`: also when each operation of one call ran. All profiles of a run are of
    calls with the same inputs. Raises FuseworksError.
    """
    context = bench.context
    arrays = drawing(bench, 1)()
    built = bench.shop.build(candidate)
    with bench.shop.load(built, Plan.of(candidate).settings, name="profile", marked=marked).child as child:
        reply = child.call(
            "profiling.profile",
            arrays,
            timeout_s=timeout_s,
            calls=PROFILE_CALLS,
            marked=child.path("marked") if marked is not None else None,
            roofs=bench.roofs,
            levers=levers,
            timeline=timeline,
        )
    try:
        found = Profile.model_validate(reply.fields["profile"])
    except (KeyError, ValidationError) as error:
        raise FuseworksError("child:user:bad-answer", text=f"the profile is not valid: {error}") from error
    found.candidate = candidate.name
    top = sorted(found.operations, key=lambda row: -row.self_ms)[:3]
    context.events.emit(
        "profiling",
        f"{candidate.name}: {found.total_ms:.2f} ms a call under the profiler; most of it: "
        + ", ".join(f"{row.op} {row.share:.0%}" for row in top),
        candidate=candidate.name,
    )
    return found


def find_rewrites(bench: Bench) -> None:
    """A pass that fails costs itself only."""
    with bench.context.events.stage("optimizing", "Matching every pass against the graph"):
        bench.answer.rewrites = match_passes(bench.context, bench.shop, bench.answer)
    applied = [f"{r.pass_} ({len(r.applied)})" for r in bench.answer.rewrites if r.applied]
    bench.context.events.emit("optimizing", "Rewrites that fit: " + (", ".join(applied) or "none"))


def find_causes(bench: Bench) -> None:
    with bench.context.events.stage("diagnosing", "Looking for what holds the model back"):
        found = diagnosed(
            Evidence(
                profile=bench.answer.profile,
                rewrites=bench.answer.rewrites,
                dynamic_batch=bool(bench.workload.dims),
                notes=bench.captured.inspection.notes,
                outline=bench.captured.outline,
                workload=bench.captured.workload,
                samples=bench.captured.samples,
                target=bench.context.target,
            )
        )
    bench.answer.findings, bench.answer.recoverable_share = found.findings, found.recoverable
    for finding in bench.answer.findings:
        bench.context.events.emit("diagnosing", finding.title, severity=finding.severity)


def make_verifier(bench: Bench) -> Verifier:
    """Starts the float64 reference and asks it and the baseline everything that candidates will be asked."""
    context, captured = bench.context, bench.captured
    with context.events.stage("verifying", "Computing the float64 reference and the baseline's own errors"):
        bench.reference = context.child("reference", {"model": captured.model})
        bench.reference.call(
            "verifying.load_reference",
            timeout_s=300.0,
            model=bench.reference.path("model"),
            format=captured.format,
            workload=captured.workload.model_dump(by_alias=True, mode="json"),
        )
        bench.verifier = _verifier(bench, bench.reference)
        built = bench.shop.build(bench.baseline(RuntimeSettings()))
        with bench.shop.load(built, RuntimeSettings(), name="baseline").child as child:
            bench.verifier.prepare(child)
        if bench.verifier.no_task_metric:
            answer = bench.answer
            answer.note(context, bench.verifier.no_task_metric + " Numerics are judged against float64 alone.")
        bench.reference.pause()
    return bench.verifier


def _verifier(bench: Bench, reference: Child) -> Verifier:
    captured, policy, rng = bench.captured, bench.context.spec.policy, bench.context.rng(2)
    if captured.workload.mode is Mode.TRAINING:
        return TrainingVerifier(captured.workload, policy, rng, reference, drawing(bench, 16))
    names = [str(o.get("name")) for o in captured.inspection.outputs]
    return Verifier(captured.workload, policy, rng, reference, output_names=names or None, samples=captured.samples)


def honoured_settings(context: RunContext, profile: Profile | None = None) -> RuntimeSettings:
    """The runtime settings worth proposing here: those of TUNED that this machine honours, and denormals flushed where
    the profile shows what they cost. They are a processor's."""
    if not context.spec.policy.runtime_settings or context.target != "cpu":
        return RuntimeSettings()
    reasons = runtime_settings.available()["reasons"]
    return RuntimeSettings(
        allocator="default" if reasons["allocator"] else TUNED.allocator,
        huge_pages=TUNED.huge_pages and not reasons["huge_pages"],
        denormals="flushed" if profile and (profile.denormals_gain or 0.0) >= DENORMALS_GAIN else "kept",
    )


def conditions(context: RunContext, settings: RuntimeSettings, libraries: dict[str, str] | None = None) -> Conditions:
    fixed = machine.fixed_conditions(
        target=context.target,
        threads=context.threads_of(settings),
        settings=settings.model_dump(exclude_defaults=True, mode="json"),
        libraries=libraries,
    )
    return Conditions(fixed=fixed, observed=machine.observed_conditions(), fingerprint=machine.fingerprint(fixed))
