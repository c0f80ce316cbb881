"""Runs one spec from beginning to end: the only place where exceptions become a run's status.

The user's error is `failed`, ours and anything unforeseen is `errored` with its traceback in the log; partial answers
are kept. Leaves `result.json` in `out`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from optimizer.compiling.toolchain import default_folder
from optimizer.coordinator import compare, deliver, diagnose_traces, explain, inspect, optimize, replay
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.build_cache import BuildCache
from optimizer.coordinator.context import RunContext, default_threads, seed_of
from optimizer.coordinator.events import Emitter, Sink
from optimizer.errors import FuseworksError, load_catalogue
from optimizer.reporting.report import write_report
from optimizer.result import Result, RunStatus
from optimizer.spec import SHORT_BUDGET_S, Purpose, RunSpec

LEFT_BY_RUNS = ("result.json", "samples.json", "report.html", "recipe.yaml", "package", "package.zip")
MEASURING = (Purpose.OPTIMIZE, Purpose.REPLAY, Purpose.COMPARE)
Work = Callable[[RunContext, Answer], None]
PURPOSES: dict[Purpose, Work] = {
    Purpose.INSPECT: inspect.inspect,
    Purpose.OPTIMIZE: optimize.optimize,
    Purpose.REPLAY: replay.replay,
    Purpose.COMPARE: compare.compare,
    Purpose.EXPLAIN: explain.explain,
    Purpose.DIAGNOSE: diagnose_traces.diagnose_traces,
}


def execute(spec: RunSpec, sink: Sink, work: Work | None = None) -> Result:
    """Works the spec and returns what `result.json` says. Raises nothing but KeyboardInterrupt and the like.

    `work`: what is done in place of the purpose's own work.
    """
    load_catalogue()
    out = Path(spec.out).absolute()
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="fuseworks-run-"))
    events = Emitter(sink, spec.policy.budget_s)
    context = RunContext(
        spec=spec,
        work=scratch,
        out=out,
        events=events,
        seed=seed_of(spec),
        threads=default_threads(spec),
        cache=BuildCache(),
        outcomes=default_folder() / "outcomes.jsonl",
    )
    answer = Answer()
    for name in LEFT_BY_RUNS:  # what an earlier run left here must not pass for this one's
        _remove(out / name)
    try:
        result = _work(context, answer, work or PURPOSES[spec.purpose])
    except BaseException:
        _write(answer.result(context, RunStatus.CANCELLED), out)
        raise
    finally:
        context.end_children(None)
        shutil.rmtree(scratch, ignore_errors=True)
    _write(result, out)
    if answer.inspection is not None:
        result = _with_report(context, answer, result, out)
    events.emit("finished", result.summary, status=result.status.value)
    return result


def _with_report(context: RunContext, answer: Answer, result: Result, out: Path) -> Result:
    """Raw samples and report; the result is on disk already, and a report that fails costs nothing else."""
    try:
        if answer.samples:
            samples = out / "samples.json"
            samples.write_text(json.dumps(answer.samples) + "\n")
            result.artifacts.append(deliver.artifact("samples", samples))
        report = write_report(result, out, samples=answer.latencies())
        result.artifacts.append(deliver.artifact("report", report))
    except Exception as error:
        answer.note(context, f"The report could not be written: {type(error).__name__}: {error}")
        result.notes = answer.notes
    _write(result, out)
    return result


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _work(context: RunContext, answer: Answer, work: Work) -> Result:
    budget_s = context.spec.policy.budget_s
    if context.spec.purpose in MEASURING and budget_s < SHORT_BUDGET_S:
        answer.note(
            context,
            f"{budget_s:g} s are a short budget: below {SHORT_BUDGET_S} s a run rarely comes to a verdict.",
        )
    try:
        work(context, answer)
        return answer.result(context, RunStatus.SUCCEEDED)
    except FuseworksError as error:
        context.events.emit("log", str(error), detail=error.detail or "")
        status = RunStatus.ERRORED if error.side == "ours" else RunStatus.FAILED
        return answer.result(context, status, error)
    except Exception:  # the run's boundary: what nobody foresaw is ours, and its traceback is kept
        unforeseen = FuseworksError("child:ours:unexpected", detail=traceback.format_exc())
        context.events.emit("log", str(unforeseen), detail=unforeseen.detail or "")
        return answer.result(context, RunStatus.ERRORED, unforeseen)


def _write(result: Result, out: Path) -> None:
    partial = out / ".result.json.partial"
    partial.write_text(result.model_dump_json(by_alias=True, indent=2) + "\n")
    partial.replace(out / "result.json")
