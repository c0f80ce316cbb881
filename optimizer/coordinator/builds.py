"""Builds ahead of time, side by side. Nothing is measured meanwhile: `wait` before the first clock is read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from optimizer.coordinator.prepare import Bench
from optimizer.errors import FuseworksError
from optimizer.result import Candidate

MAX_WORKERS = 4


class Builds:
    """One pool for the whole run."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.workers = max(1, min(bench.context.threads, MAX_WORKERS))
        self._pool = ThreadPoolExecutor(max_workers=self.workers)
        self._builds: dict[str, Future[None]] = {}

    def submit(self, candidates: Sequence[Candidate]) -> None:
        """Those that take longest should come first."""
        for candidate in candidates:
            if candidate.name not in self._builds:
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

    def ended(self, candidate: Candidate) -> bool:
        """False when it was cancelled: an evaluation of it would have to build it."""
        build = self._builds.get(candidate.name)
        return build is not None and build.done() and not build.cancelled()

    def _build(self, candidate: Candidate) -> None:
        """An error is raised again, and reported, when the candidate is evaluated."""
        emit = self.bench.context.events.emit
        try:
            self.bench.shop.build(candidate)
            emit("compiling", f"Built {candidate.name}", candidate=candidate.name)
        except FuseworksError as error:
            emit("compiling", f"{candidate.name}: {error.message}", candidate=candidate.name)

    def close(self) -> None:
        """Ends what still runs: whoever leaves early (Ctrl-C, an error) does not wait for compilers."""
        for build in self._builds.values():
            build.cancel()
        self.bench.context.end_children({"rewrite", "build"})
        self._pool.shutdown(cancel_futures=True)
