"""A run's context without children, and events kept in a list."""

from __future__ import annotations

from pathlib import Path

from optimizer.coordinator.context import RunContext
from optimizer.coordinator.events import Emitter
from optimizer.result import Event
from optimizer.spec import Policy, RunSpec


def context(tmp_path: Path, events: list[Event] | None = None, **policy: object) -> RunContext:
    spec = RunSpec(model="model.py", out=str(tmp_path / "out"), policy=Policy.model_validate(policy))
    sink = (events if events is not None else []).append
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return RunContext(
        spec=spec, work=work, out=tmp_path / "out", events=Emitter(sink, spec.policy.budget_s), seed=1, threads=2
    )
