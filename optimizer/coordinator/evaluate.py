"""One candidate from plan to evaluation: built, loaded in a fresh process, verified, and only then timed (cheaply)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optimizer import inputs
from optimizer.benchmarking.bursts import Entrant
from optimizer.benchmarking.screen import screen
from optimizer.coordinator.limits import check_memory
from optimizer.coordinator.prepare import Bench, drawing
from optimizer.coordinator.workshop import Built, Loaded, Plan
from optimizer.errors import FuseworksError, catalogue
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Probe, Problem, Verification
from optimizer.sandbox import Child
from optimizer.spec import Mode, RuntimeSettings
from optimizer.verifying.failing import telling
from optimizer.verifying.meaning import not_asked, same_meaning
from optimizer.verifying.verify import Verifier

catalogue(
    {
        "evaluating:ours:baseline": (
            "The baseline could not be started beside a candidate: {text}",
            "It ran before, so the machine is the likely cause: see `fuseworks doctor`, and run again.",
        )
    }
)

STATUS_OF_ERROR = {
    "compiling:user:unsupported": EvaluationStatus.UNSUPPORTED_BY_BACKEND,
    "compiling:ours:compile-error": EvaluationStatus.COMPILE_ERROR,
    "compiling:user:refused": EvaluationStatus.REFUSED,
    "compiling:user:timed-out": EvaluationStatus.TIMED_OUT,
    "child:user:out-of-memory": EvaluationStatus.OUT_OF_MEMORY,
    "child:user:timed-out": EvaluationStatus.TIMED_OUT,
    "child:user:crashed": EvaluationStatus.CRASHED,
    "benchmarking:user:answers-changed": EvaluationStatus.INCORRECT_NUMERICS,
    "benchmarking:user:memory-limit": EvaluationStatus.OUT_OF_MEMORY,
}

MEANING_S = 60.0


def failed(candidate: Candidate, error: FuseworksError) -> Evaluation:
    """The evaluation of a candidate that ended in `error`: a crash ends its candidate, not the run."""
    return Evaluation(
        candidate=candidate,
        status=STATUS_OF_ERROR.get(error.id, EvaluationStatus.RUNTIME_ERROR),
        reason=error.message,
        problem=Problem.model_validate(error.document()),
    )


def not_tried(candidate: Candidate, reason: str) -> Evaluation:
    return Evaluation(candidate=candidate, status=EvaluationStatus.NOT_TRIED, reason=reason)


def entrant(name: str, loaded: Loaded) -> Entrant:
    return Entrant(name, loaded.child, loaded.load_s, loaded.rss_bytes_after_import)


def verified(bench: Bench, verifier: Verifier, candidate: Candidate) -> tuple[Evaluation, dict[str, Any]]:
    """Built, loaded in a fresh process under its own settings and verified; not timed, and not filed. With it what its
    performance will tell of build and process."""
    try:
        built, loaded = _loaded(bench, candidate, Plan.of(candidate).settings)
        with loaded.child as child:
            return _verified(bench, verifier, candidate, built, child), _of_build(built, loaded)
    except FuseworksError as error:
        return failed(candidate, error), {}


def _loaded(bench: Bench, candidate: Candidate, settings: RuntimeSettings) -> tuple[Built, Loaded]:
    with bench.context.events.stage("compiling", f"Building {candidate.name}", candidate.name):
        built = bench.shop.build(candidate)
        return built, bench.shop.load(built, settings, name="candidate")


def _verified(bench: Bench, verifier: Verifier, candidate: Candidate, built: Built, child: Child) -> Evaluation:
    """Raises FuseworksError when the candidate does."""
    with bench.context.events.stage("verifying", f"Verifying {candidate.name} against float64", candidate.name):
        verification = verifier.verify(child, Plan.of(candidate).precision_name)
    if verification.passed:
        verification = _meaning_judged(bench, verifier, built, verification)
    if verification.passed:
        return Evaluation(candidate=candidate, status=EvaluationStatus.PASSED, verification=verification)
    verification.first_diverging = _first_diverging(bench, verifier, built, verification)
    return Evaluation(
        candidate=candidate,
        status=EvaluationStatus.INCORRECT_NUMERICS,
        reason=verification.reason or "the outputs differ",
        verification=verification,
    )


def _of_build(built: Built, loaded: Loaded) -> dict[str, Any]:
    return {
        "compile_s": built.compile_s,
        "artifact_bytes": built.artifact_bytes,
        "inference_precision": loaded.inference_precision,
    }


class Evaluator:
    """Evaluates candidates against one baseline process that stays up (stopped) under the same settings."""

    def __init__(self, bench: Bench, verifier: Verifier, settings: RuntimeSettings) -> None:
        self.bench = bench
        self.verifier = verifier
        self.settings = settings
        self._items = inputs.items(bench.workload, bench.workload.sizes())
        self._rng = bench.context.rng(3)
        self._draw = drawing(bench, 4)
        self._baseline: Entrant | None = None
        self._best: dict[str, Any] | None = None

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """Files the evaluation with the answer and returns it. Raises only what ends the whole run."""
        evaluation = self._evaluate(candidate)
        self.bench.answer.file(evaluation)
        events = self.bench.context.events
        if evaluation.status == EvaluationStatus.PASSED:
            assert evaluation.performance is not None
            self._note_best(candidate.name, evaluation.screened_speedup or 0.0)
            text = f"{evaluation.performance.median_ms:.2f} ms, {evaluation.screened_speedup:.2f}x in the screening"
            events.emit(
                "benchmarking",
                f"{candidate.name}: {text}",
                candidate=candidate.name,
                speedup=evaluation.screened_speedup,
                median_ms=evaluation.performance.median_ms,
                best=self._best,
            )
        else:
            events.emit(
                "verifying",
                f"{candidate.name}: {evaluation.status.value}: {evaluation.reason}",
                candidate=candidate.name,
            )
        return evaluation

    def _note_best(self, name: str, speedup: float) -> None:
        if self._best is None or speedup > self._best["speedup"]:
            self._best = {"name": name, "speedup": round(speedup, 3)}

    def _evaluate(self, candidate: Candidate) -> Evaluation:
        try:
            built, loaded = _loaded(self.bench, candidate, self.settings)
        except FuseworksError as error:
            return failed(candidate, error)
        with loaded.child as child:
            try:
                found = _verified(self.bench, self.verifier, candidate, built, child)
                if found.status != EvaluationStatus.PASSED:
                    return found
                screening = f"Screening {candidate.name}"
                with self.bench.context.events.stage("benchmarking", screening, candidate.name):
                    screened = screen(
                        entrant(candidate.name, loaded),
                        self._running_baseline(),
                        self._draw,
                        rng=self._rng,
                        items=self._items,
                        check=self.verifier.agreement(Plan.of(candidate).precision_name),
                    )
            except FuseworksError as error:
                if error.id in {"benchmarking:ours:busy", "evaluating:ours:baseline"}:
                    raise
                return failed(candidate, error)
            finally:
                self._pause_baseline()
        performance = screened.performance.model_copy(update=_of_build(built, loaded))
        try:
            check_memory(self.bench.workload, candidate.name, performance.peak_memory_bytes)
        except FuseworksError as error:
            return failed(candidate, error).model_copy(update={"verification": found.verification})
        return found.model_copy(update={"performance": performance, "screened_speedup": screened.speedup})

    def _running_baseline(self) -> Entrant:
        if self._baseline is None:
            try:
                built = self.bench.shop.build(self.bench.baseline(self.settings))
                self._baseline = entrant("baseline", self.bench.shop.load(built, self.settings, name="baseline"))
            except FuseworksError as error:
                raise FuseworksError("evaluating:ours:baseline", text=error.message, detail=error.detail) from error
        self._baseline.child.resume()
        return self._baseline

    def _pause_baseline(self) -> None:
        if self._baseline is not None:
            self._baseline.child.pause()

    def close(self) -> None:
        if self._baseline is not None:
            self._baseline.child.kill()
            self._baseline = None


def _meaning_judged(bench: Bench, verifier: Verifier, built: Built, verification: Verification) -> Verification:
    """With one more probe for a rewritten graph, which is asked once however many engines run it."""
    if built.model == bench.captured.model or verifier.workload.mode is Mode.TRAINING:
        return verification
    if built.model not in verifier.meanings:
        verifier.meanings[built.model] = _meaning(bench, verifier, built.model)
    probe = verifier.meanings[built.model]
    reason = None if probe.passed else f"{probe.name}: {probe.reason}"
    probes = [*verification.probes, probe]
    return verification.model_copy(update={"probes": probes, "passed": probe.passed, "reason": reason})


def _meaning(bench: Bench, verifier: Verifier, model: Path) -> Probe:
    format = bench.captured.format
    try:
        with bench.context.child("meaning", {"model": model}) as child:
            child.call("verifying.load_reference", timeout_s=MEANING_S, model=child.path("model"), format=format)
            # the evaluator of ONNX graphs is slow
            return same_meaning(child, verifier.truths, MEANING_S, edges=format == "pt2")
    except FuseworksError as error:
        return not_asked(error.message)


def _first_diverging(bench: Bench, verifier: Verifier, built: Built, verification: Verification) -> str | None:
    """The first operation of a rewritten graph that departs from the original in float64; None when none does."""
    model = bench.captured.model
    if built.model == model or bench.captured.format != "pt2" or verifier.workload.mode is Mode.TRAINING:
        return None
    question = telling(verification, verifier.truths, verifier.captured)
    if built.promised and question.breaks_promise:
        return None  # the graph is right for others only, and it was for the guard to see that
    try:
        with bench.context.child("bisect", {"a": model, "b": built.model}) as child:
            reply = child.call(
                "verifying.first_diverging",
                question.arrays,
                timeout_s=120.0,
                model_a=child.path("a"),
                model_b=child.path("b"),
            )
    except FuseworksError as error:
        bench.context.events.emit("log", f"The first diverging operation was not found: {error.message}")
        return None
    found = reply.fields.get("first_diverging")
    return found[:500] if isinstance(found, str) else None


@contextlib.contextmanager
def evaluator(bench: Bench, verifier: Verifier, settings: RuntimeSettings) -> Iterator[Evaluator]:
    """An evaluator whose baseline process ends with the block."""
    one = Evaluator(bench, verifier, settings)
    try:
        yield one
    finally:
        one.close()
