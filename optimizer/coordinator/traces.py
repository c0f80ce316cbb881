"""Reads traces: each in a sandboxed child of its own, whose answer is validated. Several at once on several cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from optimizer import machine, runtime_settings
from optimizer.diagnosing import errors as _errors  # noqa: F401  its ids must be in the catalogue
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.errors import FuseworksError
from optimizer.sandbox import ChildSpec, Limits, start
from optimizer.spec import RuntimeSettings
from optimizer.uploads.refusals import Refused
from optimizer.uploads.traces import trace_members

# A trace of 1 GiB takes a fifth of it; the rest is for what a hostile one can make of it.
MEMORY_BYTES = 2 << 30
TIMEOUT_S = 600.0
MOST_AT_ONCE = 4


@dataclass(frozen=True)
class TraceFile:
    """`member`: the entry of a zip."""

    path: Path
    member: str | None

    @property
    def name(self) -> str:
        return self.member or self.path.name


def trace_files(path: Path) -> list[TraceFile] | None:
    """None: a file of another kind. Raises FuseworksError."""
    try:
        members = trace_members(path)
    except Refused as refused:
        text = str(refused.context.get("text", refused.reason))
        raise FuseworksError("diagnosing:user:bad-archive", place=path.name, text=text) from refused
    except OSError as error:
        raise FuseworksError("diagnosing:usage:missing", path=str(path), detail=str(error)) from error
    return None if members is None else [TraceFile(path, member) for member in members]


def read_traces(
    files: Sequence[TraceFile], *, trusted: bool, on_read: Callable[[RankTrace], None] = lambda rank: None
) -> tuple[list[RankTrace], str]:
    """In order of their ranks, and the confinement that they were read in. `on_read` hears of each, as given.

    Raises FuseworksError.
    """
    at_once = max(
        1, min(MOST_AT_ONCE, runtime_settings.default_threads(), machine.memory_bytes() // (2 * MEMORY_BYTES))
    )
    with ThreadPoolExecutor(at_once) as pool:
        read = []
        for one in pool.map(lambda file: _read(file, trusted), files):
            on_read(one[0])
            read.append(one)
    ranks = sorted((rank for rank, _ in read), key=lambda rank: (rank.rank is None, rank.rank or 0, rank.name))
    return ranks, read[0][1]


def _read(file: TraceFile, trusted: bool) -> tuple[RankTrace, str]:
    spec = ChildSpec(
        "trace",
        inputs={"trace": file.path.absolute()},
        environment=runtime_settings.environment(RuntimeSettings(), 1),
        limits=Limits(memory_bytes=MEMORY_BYTES, scratch_bytes=64 << 20, answer_bytes=1 << 20),
        trusted=trusted,
    )
    with start(spec) as child:
        try:
            reply = child.call(
                "diagnosing.read_trace",
                timeout_s=TIMEOUT_S,
                path=child.path("trace"),
                member=file.member,
                name=file.name,
            )
        except FuseworksError as error:
            error.place = f"{file.name}: {error.place}" if error.place and error.place != file.name else file.name
            raise
        try:
            return RankTrace.model_validate(reply.fields["trace"]), child.sandbox
        except (KeyError, ValidationError) as error:
            raise FuseworksError("child:user:bad-answer", place=file.name, text=str(error)[:500]) from error
