"""Builds ahead of time, side by side. Nothing is measured meanwhile: `wait` before the first clock is read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from optimizer.coordinator.prepare import Bench
from optimizer.errors import FuseworksError
from optimizer.result import Candidate
from optimizer.spec import BackendStep

MAX_WORKERS = 4
SLOWEST_BUILDS = ("torchao", "aot_inductor", "inductor", "onnxruntime", "openvino")


class Builds:
    """One pool for the whole run."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.workers = max(1, min(bench.context.threads, MAX_WORKERS))
        self._pool = ThreadPoolExecutor(max_workers=self.workers)
        self._builds: dict[str, Future[None]] = {}
        self._took_s: dict[str, float] = {}

    def submit(self, candidates: Sequence[Candidate]) -> None:
        """Those that take longest should come first. What was cancelled for want of time gets a second chance."""
        for candidate in candidates:
            known = self._builds.get(candidate.name)
            if known is None or known.cancelled():
                self._builds[candidate.name] = self._pool.submit(self._build, candidate)

    def wait(self, candidates: Sequence[Candidate], deadline: float) -> None:
        """Until all are built, or `deadline` (`time.monotonic`) is over: those not begun by then never are, and those
        that run are waited for, within the time that one build may take."""
        futures = [self._builds[c.name] for c in candidates]
        for future in futures:
            try:
                future.result(timeout=max(deadline - time.monotonic(), 0.0))
            except TimeoutError:
                for other in futures:
                    other.cancel()
                break
        for future in futures:
            if not future.cancelled():
                future.result()

    def took_s(self, candidate: Candidate) -> float:
        """How long its build took beside others; 0 when it was not built here."""
        return self._took_s.get(candidate.name, 0.0)

    def fitting(self, candidates: Sequence[Candidate], deadline: float, *, each_s: float) -> list[Candidate]:
        """The first of `candidates` that can be built by `deadline`, as many at a time as there are workers."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return []
        return list(candidates[: int(left_s / max(each_s, 1e-3)) * self.workers])

    def ended(self, candidate: Candidate) -> bool:
        """False when it was cancelled: an evaluation of it would have to build it."""
        build = self._builds.get(candidate.name)
        return build is not None and build.done() and not build.cancelled()

    def _build(self, candidate: Candidate) -> None:
        """An error is raised again, and reported, when the candidate is evaluated."""
        emit = self.bench.context.events.emit
        began = time.monotonic()
        try:
            built = self.bench.shop.build(candidate)
            self._took_s[candidate.name] = time.monotonic() - began
            how = f"{candidate.name} is there from an earlier run" if built.reused else f"Built {candidate.name}"
            emit("compiling", how, candidate=candidate.name)
        except FuseworksError as error:
            emit("compiling", f"{candidate.name}: {error.message}", candidate=candidate.name)

    def close(self) -> None:
        """Ends what still runs: whoever leaves early (Ctrl-C, an error) does not wait for compilers."""
        for build in self._builds.values():
            build.cancel()
        self.bench.context.end_children({"rewrite", "build"})
        self._pool.shutdown(cancel_futures=True)


def longest_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """In the order in which they should be built: what takes longest first keeps all cores busy to the end."""
    names = [c.steps[-1].backend if isinstance(c.steps[-1], BackendStep) else "" for c in candidates]
    rank = {name: SLOWEST_BUILDS.index(name) if name in SLOWEST_BUILDS else len(SLOWEST_BUILDS) for name in names}
    return [c for _, c in sorted(zip(names, candidates, strict=True), key=lambda pair: rank[pair[0]])]
