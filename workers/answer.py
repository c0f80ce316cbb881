"""What is told of a run at its end: the coordinator's result, or one made here when it left none or was cut short."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from optimizer.errors import FuseworksError
from optimizer.result import Problem, Result, RunStatus
from optimizer.spec import Purpose
from workers import errors as _errors  # noqa: F401  its ids must be in the catalogue
from workers.lease import Verdict

RESULT = "result.json"
ARTIFACTS = ("report.html", "package.zip", "recipe.yaml", "samples.json")
EXIT_USAGE = 64
LOG_HEAD_BYTES, LOG_TAIL_BYTES, TOLD_BYTES = 1 << 20, 3 << 20, 8000
USAGE_PREFIX = "run:usage:spec: "


def answer(out: Path, log: Path, *, purpose: Purpose, code: int, verdict: Verdict | None) -> Result:
    """`verdict`: why the worker ended the coordinator, None when it ended by itself with `code`."""
    try:
        result = _read(out / RESULT)
    except FuseworksError as error:
        return made(purpose, RunStatus.ERRORED, error)
    if result is not None and result.status != RunStatus.CANCELLED:
        return result  # it had come to its end by itself
    if verdict == Verdict.TIMED_OUT:
        return _cut_short(result, purpose, RunStatus.TIMED_OUT, FuseworksError("worker:ours:time-limit"))
    if verdict == Verdict.CANCELLED:
        return _cut_short(result, purpose, RunStatus.CANCELLED, None)
    told = tail(log)
    if result is not None:
        died = FuseworksError("worker:ours:coordinator-died", how="told to by somebody on its machine", detail=told)
        return _cut_short(result, purpose, RunStatus.ERRORED, died)
    if code == EXIT_USAGE:
        text = told.strip().removeprefix(USAGE_PREFIX)
        return made(purpose, RunStatus.ERRORED, FuseworksError("worker:ours:spec-refused", text=text[:1000]))
    how = f"by signal {code - 128}" if code > 128 else f"with exit code {code}"
    return made(purpose, RunStatus.ERRORED, FuseworksError("worker:ours:coordinator-died", how=how, detail=told))


def made(purpose: Purpose, status: RunStatus, error: FuseworksError | None) -> Result:
    """A result that says only how the run ended."""
    problem = Problem.model_validate(error.document()) if error else None
    summary = error.message if error else "Cancelled before it came to an answer."
    return Result(purpose=purpose, status=status, summary=summary, problem=problem)


def _cut_short(partial: Result | None, purpose: Purpose, status: RunStatus, error: FuseworksError | None) -> Result:
    """What was known when it was ended is kept."""
    ended = made(purpose, status, error)
    if partial is None:
        return ended
    update = {"status": status, "summary": partial.summary or ended.summary, "problem": ended.problem}
    return partial.model_copy(update=update)


def _read(path: Path) -> Result | None:
    """Paths of this machine are left out: they mean nothing elsewhere. Raises FuseworksError."""
    try:
        result = Result.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise FuseworksError("worker:ours:bad-result", text=text) from error
    for artifact in result.artifacts:
        artifact.path = Path(artifact.path).name
    return result


def artifacts(out: Path, log: Path) -> list[Path]:
    """The files that the run left, the log last. A log without end is cut in the middle, in place."""
    found = [out / name for name in ARTIFACTS if (out / name).is_file()]
    if log.is_file() and log.stat().st_size:
        _bound(log)
        found.append(log)
    return found


def tail(log: Path, size: int = TOLD_BYTES) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - size))
            return file.read(size).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _bound(log: Path) -> None:
    left_out = log.stat().st_size - LOG_HEAD_BYTES - LOG_TAIL_BYTES
    if left_out <= 0:
        return
    with log.open("r+b") as file:
        file.seek(LOG_HEAD_BYTES + left_out)
        end = file.read()
        file.seek(LOG_HEAD_BYTES)
        file.write(f"\n... {left_out} bytes left out ...\n".encode())
        file.write(end)
        file.truncate()
