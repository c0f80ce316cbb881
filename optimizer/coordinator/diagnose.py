"""`python -m optimizer diagnose`: what holds a model back, or the job that traces were taken of.

A model goes through capture, profile and the passes' matching as in a run that optimizes, and no further. Traces are
read in children; rules work on what these answered.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.traces import TraceFile, read_traces, trace_files
from optimizer.diagnosing.base import Evidence
from optimizer.diagnosing.base import diagnose as causes
from optimizer.diagnosing.diagnosis import NOTHING, Diagnosis, TracedRank
from optimizer.diagnosing.exporting import diagnosis_of
from optimizer.diagnosing.traces.comparing import compare
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.facts import facts
from optimizer.diagnosing.traces.ranking import WORTH_DOING, ranked
from optimizer.diagnosing.traces.stragglers import waits
from optimizer.errors import FuseworksError, load_catalogue
from optimizer.result import Event, Finding, Problem, Result
from optimizer.spec import Purpose, RunSpec, RuntimeSettings

NO_GPU = "There is no GPU event in {name}: what a GPU did cannot be told. Record with ProfilerActivity.CUDA."
NO_STEPS = "{name} marks no steps (`prof.step()`): counts per step are of the whole trace."
NO_TIMELINE = "No trace was written: the engine does not say when its operations run, or the profile failed."
MALFORMED = "{count:,} events of {name} make no sense and were left out."


def diagnose(
    paths: Sequence[Path], *, against: Sequence[Path] = (), trusted: bool = False, timeline: bool = False
) -> Diagnosis:
    """Never raises for what is wrong with the files: the problem is in the answer. `timeline`: of a model, also when
    each operation of one call ran."""
    load_catalogue()
    names = [path.name for path in paths]
    try:
        found = [(path, trace_files(path)) for path in paths]
        traces = [file for _, files in found for file in files or ()]
        others = [path for path, files in found if files is None]
        if traces and others:
            raise FuseworksError("diagnosing:usage:two-kinds", first=traces[0].path.name, second=others[0].name)
        if traces and timeline:
            raise FuseworksError("diagnosing:usage:trace", path=traces[0].path.name)
        if traces:
            return of_traces(names, traces, against_files(against), trusted=trusted)
        if against:
            raise FuseworksError("diagnosing:usage:against", path=others[0].name)
        if len(others) > 1:
            raise FuseworksError("diagnosing:usage:many-models", first=others[0].name, second=others[1].name)
        return _of_model(others[0], trusted, timeline)
    except FuseworksError as error:
        return Diagnosis(of=names, problem=Problem.model_validate(error.document()))
    except Exception:  # the verb's boundary: what nobody foresaw is ours, and its traceback is kept
        unforeseen = FuseworksError("child:ours:unexpected", detail=traceback.format_exc())
        return Diagnosis(of=names, problem=Problem.model_validate(unforeseen.document()))


def against_files(paths: Sequence[Path]) -> list[TraceFile]:
    """Raises FuseworksError for what is no trace."""
    found = []
    for path in paths:
        files = trace_files(path)
        if files is None:
            raise FuseworksError("diagnosing:usage:against", path=path.name)
        found += files
    return found


def of_traces(
    names: list[str],
    files: Sequence[TraceFile],
    against: Sequence[TraceFile],
    *,
    trusted: bool,
    on_read: Callable[[RankTrace], None] = lambda rank: None,
) -> Diagnosis:
    """Of the traces of one job; `against`: compared with these. Raises FuseworksError."""
    ranks, sandbox = read_traces(files, trusted=trusted, on_read=on_read)
    base = read_traces(against, trusted=trusted, on_read=on_read)[0] if against else ()
    return diagnosed(names, ranks, base, sandbox=sandbox)


def diagnosed(
    names: list[str], ranks: Sequence[RankTrace], base: Sequence[RankTrace] = (), *, sandbox: str = ""
) -> Diagnosis:
    """Of what was read of the traces of one job; `base`: of those that they are compared with."""
    found = ranked(ranks)
    answer = Diagnosis(
        of=names,
        facts=facts(ranks),
        findings=found.findings,
        recoverable_share=found.recoverable,
        ranks=[
            TracedRank(trace=rank.name, rank=rank.rank, facts=facts([rank]), timeline=rank.timeline) for rank in ranks
        ],
        waits=waits(ranks),
        notes=_notes(ranks),
        sandbox=sandbox,
    )
    if base:
        answer.comparison = compare(base, ranks)
    answer.summary = _summary(answer, found.worth_doing)
    return answer


def _summary(answer: Diagnosis, worth_doing: bool) -> str:
    busy = answer.facts["gpu_busy_share"]
    told = (
        "no GPU in the trace"
        if busy is None
        else f"the GPU is busy for {busy:.0%} of {answer.facts['span_ms']:,.0f} ms"
    )
    if not worth_doing or answer.recoverable_share is None:
        return f"{told[0].upper()}{told[1:]}. {NOTHING}"
    low, high = answer.recoverable_share
    return f"{told[0].upper()}{told[1:]}; mending what is found below gives back {low:.0%} to {high:.0%} of the time."


def _notes(ranks: Sequence[RankTrace]) -> list[str]:
    notes = []
    for rank in ranks:
        if not rank.has_gpu:
            notes.append(NO_GPU.format(name=rank.name))
        if not rank.steps:
            notes.append(NO_STEPS.format(name=rank.name))
        if rank.malformed:
            notes.append(MALFORMED.format(count=rank.malformed, name=rank.name))
    return notes


def _of_model(path: Path, trusted: bool, timeline: bool) -> Diagnosis:
    with tempfile.TemporaryDirectory(prefix="fuseworks-diagnose-") as out:
        spec = RunSpec(purpose=Purpose.INSPECT, model=str(path.absolute()), trusted=trusted, out=out)
        result = _executed(spec, timeline)
    answer = diagnosis_of(result, path.name)
    if result.problem is not None:
        # a model that has no single graph: its line and its remedy are a finding as much as an error
        answer.findings = result.findings or causes(Evidence.of_problem(result.problem))
    elif timeline and (answer.profile is None or not answer.profile.timeline):
        answer.notes.append(NO_TIMELINE)
    return answer


def _executed(spec: RunSpec, timeline: bool) -> Result:
    # the passes' planner and the engines are not imported where only traces are diagnosed
    from optimizer.coordinator.run import execute

    return execute(spec, _ignore, partial(_find_causes, timeline=timeline))


def _find_causes(context: RunContext, answer: Answer, *, timeline: bool) -> None:
    from optimizer.coordinator import prepare

    bench = prepare.prepare(context, answer, Path(context.spec.model))
    try:
        prepare.profile(bench, timeline=timeline)
        prepare.find_rewrites(bench)
        prepare.find_causes(bench)
    finally:
        bench.close()
    answer.conditions = prepare.conditions(context, RuntimeSettings())
    answer.summary = _told(answer.findings, answer.recoverable_share)


def _told(findings: Sequence[Finding], recoverable: tuple[float, float] | None = None) -> str:
    count = len(findings)
    told = f"{count} finding{'s' if count != 1 else ''}" if count else ""
    returned = sum(finding.counted_share or 0.0 for finding in findings)
    if returned >= WORTH_DOING or any(finding.severity in ("high", "medium") for finding in findings):
        if recoverable is not None and recoverable[1] >= WORTH_DOING:
            told += f"; mending what can be told gives back {recoverable[0]:.0%} to {recoverable[1]:.0%} of the time"
        return told
    return f"{told}. {NOTHING}" if told else NOTHING


def _ignore(event: Event) -> None:
    """Nobody listens: a diagnosis takes seconds, and what went wrong is in the answer."""
