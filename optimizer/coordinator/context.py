"""What every step of a run shares: the spec, the clock, the folders, the machine, and the way to start children."""

from __future__ import annotations

import itertools
import secrets
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from optimizer import devices, machine, runtime_settings
from optimizer.coordinator.build_cache import BuildCache
from optimizer.coordinator.events import Emitter
from optimizer.errors import FuseworksError, catalogue
from optimizer.sandbox import Child, ChildSpec, Limits, start
from optimizer.spec import RunSpec, RuntimeSettings

catalogue(
    {
        "run:ours:no-device": (
            "The target's device cannot be used here: {text}.",
            "{remedy}; or choose the target cpu.",
        )
    }
)

BUILD_TIMEOUT_S = 600.0
MIN_BUILD_TIMEOUT_S = 60.0
LOAD_TIMEOUT_S = 300.0


@dataclass
class RunContext:
    """One per run. `work` is private scratch of the coordinator; `out` is what the user gets; without a `cache`
    everything is built anew, and without `outcomes` no earlier run decides what is tried first."""

    spec: RunSpec
    work: Path
    out: Path
    events: Emitter
    seed: int
    threads: int
    toolchain: Path | None = None
    sandbox: str = ""
    granted_s: float = 0.0
    cache: BuildCache | None = None
    outcomes: Path | None = None
    artifacts_built: int = 0
    artifacts_reused: int = 0
    _children: weakref.WeakSet[Child] = field(default_factory=weakref.WeakSet)
    _counter: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def target(self) -> str:
        return self.spec.target

    def remaining_s(self) -> float:
        return self.spec.policy.budget_s + self.granted_s - self.events.elapsed_s()

    def build_timeout_s(self) -> float:
        """A build may take what is left of the budget, within reason at both ends."""
        return min(BUILD_TIMEOUT_S, max(MIN_BUILD_TIMEOUT_S, self.remaining_s()))

    def end_children(self, names: Collection[str] | None) -> None:
        """Kills the children of these names (None: all) that still live: who waits for them gets a failure instead."""
        for child in list(self._children):
            if names is None or child.spec.name in names:
                child.kill()

    def deadline(self, keep_share: float) -> float:
        """The moment, on `time.monotonic`'s clock, at which only `keep_share` of the budget is left."""
        return time.monotonic() + self.remaining_s() - keep_share * self.spec.policy.budget_s

    def unhurried(self, work: Callable[[RunContext], None]) -> None:
        """Work that this machine needs once (its toolchain cache) is not taken from the run's budget."""
        began = time.monotonic()
        work(self)
        self.granted_s += time.monotonic() - began

    def rng(self, *key: int) -> np.random.Generator:
        """A generator of its own for each purpose, all derived from the run's seed."""
        return np.random.default_rng([self.seed, *key])

    def folder(self, name: str) -> Path:
        """A new folder below `work`."""
        folder = self.work / f"{next(self._counter):03d}-{name}"
        folder.mkdir(parents=True)
        return folder

    def threads_of(self, settings: RuntimeSettings) -> int:
        return settings.threads or self.threads

    def device(self, *, confined: bool = True) -> devices.DeviceAccess | None:
        """The target's device on this machine; None for a CPU. Raises FuseworksError (`run:ours:no-device`)."""
        try:
            return devices.access(self.target, devices.visible_here(), confined=confined)
        except devices.NoDevice as error:
            text, _, remedy = str(error).partition(": ")
            raise FuseworksError("run:ours:no-device", place=self.target, text=text, remedy=remedy) from error

    def child(
        self,
        name: str,
        inputs: dict[str, Path] | None = None,
        settings: RuntimeSettings | None = None,
        *,
        trusted: bool = False,
        on_device: bool = False,
        extra_environment: dict[str, str] | None = None,
    ) -> Child:
        """Starts a child in the run's sandbox, with the process environment of `settings`. `on_device`: it works on the
        target's device, which only such children may open. Raises FuseworksError."""
        settings = settings or RuntimeSettings()
        environment: dict[str, str] = runtime_settings.environment(settings, self.threads_of(settings))
        unconfined = trusted or self.spec.trusted
        device = self.device(confined=not unconfined) if on_device else None
        environment.update({**(device.environment if device else {}), **(extra_environment or {})})
        child = start(
            ChildSpec(
                name=name,
                inputs=inputs or {},
                environment=environment,
                limits=_limits(),
                trusted=unconfined,
                devices=device.nodes if device else (),
                device_reads=device.reads if device else (),
            )
        )
        self._children.add(child)
        if not trusted:
            self.sandbox = getattr(child, "sandbox", self.sandbox)
        return child


def _limits() -> Limits:
    """Memory: half of what the machine has. Several live at once, most of them stopped and far below their limit."""
    total: int = machine.memory_bytes()
    return Limits(memory_bytes=max(2 << 30, total // 2))


def seed_of(spec: RunSpec) -> int:
    return spec.policy.seed if spec.policy.seed is not None else secrets.randbits(32)


def default_threads(spec: RunSpec) -> int:
    threads: int = spec.policy.threads or runtime_settings.default_threads()
    return threads
