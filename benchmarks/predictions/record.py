"""Records what rules predict of a variant, and what their remedies give: the original's own engine with and without.

A variant goes through capture, profile, matching and diagnosis as any model does. Then the captured graph runs eagerly
in fresh processes, interleaved, beside itself with each remedy: one pass, or settings of the process. That is no
compiled engine, on which a pass may give more or less, and answers are not compared: whether a pass is right is what
runs are for.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.predictions.recording import Header, RecordedGain, RecordedVariant, Recording
from benchmarks.predictions.variants import Variant
from optimizer import machine
from optimizer.benchmarking.load import busy, cores
from optimizer.benchmarking.sets import measure_set
from optimizer.coordinator import prepare
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext, default_threads, seed_of
from optimizer.coordinator.events import Emitter
from optimizer.coordinator.judging import BASELINE, starter
from optimizer.coordinator.prepare import Bench, drawing
from optimizer.coordinator.workshop import Plan, Workshop
from optimizer.diagnosing.base import key_of
from optimizer.diagnosing.remedies import settings_of
from optimizer.errors import FuseworksError, load_catalogue
from optimizer.result import Candidate, Finding
from optimizer.spec import Mode, Policy, RunSpec, RuntimeSettings

SETS, ROUNDS, WARM_UP_S = 2, 6, 0.7
SEED = 0
BUDGET_S = 480.0
FINGERPRINT_DIGITS = 12
PINNED = "the original with its allocator pinned"
NOT_ALONE = "the pass does nothing to the graph by itself"
TRAINING = "a training step, whose predictions are not recorded"

Say = Callable[[str], None]


def header(*, sets: int = SETS, rounds: int = ROUNDS, light: bool = False) -> Header:
    """Of this machine."""
    threads = default_threads(RunSpec(model="", out=""))
    fixed = machine.fixed_conditions(target="cpu", threads=threads)
    how: Literal["processes", "cpu_time"] = "cpu_time" if light else "processes"
    return Header(how=how, sets=sets, rounds=rounds, seed=SEED, fingerprint=machine.fingerprint(fixed), fixed=fixed)


def record(root: Path, chosen: Sequence[Variant], head: Header, *, say: Say, until: float = float("inf")) -> Recording:
    """Those of `chosen` that are not recorded yet; none is begun after `until` (`time.monotonic`). Raises
    RecordingError."""
    load_catalogue()
    recording = Recording(root / f"{head.fingerprint[:FINGERPRINT_DIGITS]}-{head.how.replace('_', '-')}")
    recording.begin(head)
    have = {_identity(one.model, one.factors) for one in recording.variants()}
    left = [one for one in chosen if _identity(one.model, one.factors) not in have]
    say(f"{len(left)} of {len(chosen)} variants to record in {recording.folder}")
    for number, variant in enumerate(left, 1):
        if time.monotonic() > until:
            say(f"The time is over; {len(left) - number + 1} variants are left: call the same again to go on.")
            break
        one = _recorder(head)(variant, head)
        recording.append(one)
        told = one.lost or ", ".join(f"{g.key} {_told(g)}" for g in one.gains) or "no prediction"
        say(f"{number} of {len(left)}, {variant.name}: {told} ({one.seconds:.0f} s)")
    return recording


def _recorder(head: Header) -> Callable[[Variant, Header], RecordedVariant]:
    if head.how == "processes":
        return record_variant
    from benchmarks.predictions.light import record_light  # torch, in this very process

    return record_light


def _told(gain: RecordedGain) -> str:
    measured = f"{gain.realised:.2f}x" if gain.log_speedups else gain.not_measured
    return f"[{gain.low:.2f}, {gain.high:.2f}] -> {measured}"


def _identity(model: str, factors: dict[str, float]) -> tuple[str, tuple[tuple[str, float], ...]]:
    return model, tuple(sorted((kind, float(factor)) for kind, factor in factors.items()))


def record_variant(variant: Variant, head: Header) -> RecordedVariant:
    """A variant that fails is recorded as lost: scaled numbers need not fit together."""
    at, began = datetime.now(UTC).replace(microsecond=0), time.monotonic()
    kept = RecordedVariant(model=variant.model, factors=variant.factors, at=at, seconds=0.0, beside_other_work=busy())
    try:
        with _diagnosed(variant, head.seed) as bench:
            kept = _measured(bench, kept, head)
    except FuseworksError as error:
        kept = kept.model_copy(update={"lost": f"{error.id}: {error.message}"[:300]})
    return kept.model_copy(update={"seconds": round(time.monotonic() - began, 1)})


class _Asked(NamedTuple):
    """A finding's remedy as a contender. `base`: what it is held against, the same but for the remedy."""

    base: str
    plan: Candidate


def _measured(bench: Bench, kept: RecordedVariant, head: Header) -> RecordedVariant:
    findings = [one for one in bench.answer.findings if one.gain is not None and one.mended_by]
    profile = bench.answer.profile
    known = {
        "operations": bench.captured.inspection.operations,
        "call_ms": profile.unprofiled_ms if profile is not None else None,
    }
    if bench.workload.mode is not Mode.INFERENCE:
        return kept.model_copy(update={**known, "lost": TRAINING})
    # without the weights of the upload the baseline is the captured graph, as the rewritten one is
    bench.shop = Workshop(bench.context, replace(bench.captured, weights=None))
    asked = _asked(bench, findings)
    plans = {BASELINE: bench.baseline(RuntimeSettings()), PINNED: bench.baseline(_pinned(bench))}
    plans |= {one.plan.name: one.plan for one in asked.values()}
    needed = {BASELINE} | {name for one in asked.values() for name in (one.base, one.plan.name)}
    starts = {name: starter(bench, plans[name]) for name in plans if name in needed}
    logs: dict[str, list[float]] = {key: [] for key in asked}
    loads, failed = [], dict[str, str]()
    draw, rng = drawing(bench, 21), bench.context.rng(22)
    for _ in range(head.sets if asked else 0):
        measured = measure_set(starts, draw, baseline=BASELINE, rng=rng, rounds=head.rounds, warm_up_s=WARM_UP_S)
        loads.append(round(os.getloadavg()[0], 2))
        for key, (base, plan) in asked.items():
            gone = next((name for name in (base, plan.name) if name in measured.failed), None)
            if gone is None:
                logs[key].append(round(measured.log_speedup(base, plan.name), 5))
            else:
                failed[key] = measured.failed[gone].message
    gains = [_recorded(finding, logs, failed) for finding in findings]
    return kept.model_copy(update={**known, "load_averages": loads, "gains": gains})


def _recorded(finding: Finding, logs: dict[str, list[float]], failed: dict[str, str]) -> RecordedGain:
    key, gain = key_of(finding), finding.gain
    assert gain is not None
    low, high = gain.uncorrected or (gain.low, gain.high)
    why = "" if logs.get(key) else failed.get(key, NOT_ALONE)
    return RecordedGain(
        key=key, low=low, high=high, cost_share=finding.cost_share, log_speedups=logs.get(key, []), not_measured=why
    )


def _pinned(bench: Bench) -> RuntimeSettings:
    return prepare.honoured_settings(bench.context)


def _asked(bench: Bench, findings: Sequence[Finding]) -> dict[str, _Asked]:
    """By key, built and ready to be started. Raises FuseworksError."""
    with ThreadPoolExecutor(max_workers=cores()) as pool:
        found = pool.map(partial(_plan, bench), findings)
        return {key_of(finding): one for finding, one in zip(findings, found, strict=True) if one is not None}


def _plan(bench: Bench, finding: Finding) -> _Asked | None:
    """The original's engine with the finding's remedy; None where a pass of it applies only after others.

    Passes are measured with the allocator pinned on both sides, as runs do: with the default one, processes that are
    alike differ by more than most passes give.
    """
    options = {rewrite.pass_: rewrite.options for rewrite in bench.answer.rewrites}
    wanted = [step["pass"] for step in finding.mended_by if "pass" in step]
    settings = settings_of(finding.mended_by)
    if not wanted and settings == _pinned(bench).model_dump(exclude_defaults=True):
        return _Asked(BASELINE, bench.baseline(_pinned(bench)).model_copy(update={"name": PINNED}))
    passes = [{"pass": name, "options": options[name]} for name in options if name in wanted]
    runtime = {"runtime": settings if settings else _pinned(bench)}
    backend = {"backend": bench.captured.baseline_backend}
    plan = Candidate.model_validate({"name": key_of(finding), "steps": [runtime, *passes, backend]})
    if not passes:
        return _Asked(BASELINE, plan)
    rewrites = bench.shop.rewrite(Plan.of(plan).passes).rewrites
    if not all(any(r.applied for r in rewrites if r.pass_ == name) for name in wanted):
        return None
    bench.shop.build(plan)
    return _Asked(PINNED, plan)


@contextmanager
def _diagnosed(variant: Variant, seed: int) -> Iterator[Bench]:
    """Raises FuseworksError."""
    work = Path(tempfile.mkdtemp(prefix="fuseworks-predictions-"))
    model = work / f"{variant.model}.py"
    model.write_text(variant.source)
    spec = RunSpec(model=str(model), out=str(work / "out"), policy=Policy(seed=seed, budget_s=BUDGET_S))
    context = RunContext(
        spec=spec,
        work=work,
        out=work / "out",
        events=Emitter(lambda _: None, spec.policy.budget_s),
        seed=seed_of(spec),
        threads=default_threads(spec),
    )
    try:
        bench = prepare.prepare(context, Answer(), model)
        prepare.profile(bench)
        prepare.find_rewrites(bench)
        prepare.find_causes(bench)
        yield bench
    finally:
        context.end_children(None)
        shutil.rmtree(work, ignore_errors=True)
