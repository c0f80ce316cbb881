"""From samples to figures, and what is too good to be believed at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.benchmarking.bursts import Draw, Entrant
from optimizer.benchmarking.sets import Check, Start, measure_set
from optimizer.result import Performance
from optimizer.sandbox import Child

HELD_BACK_SPEEDUP = 10.0
RECHECK_SHARE = 0.25
NS_PER_MS = 1e6


def performance(
    entrants: Sequence[Entrant],
    *,
    items: int,
    compile_s: float | None = None,
    artifact_bytes: int | None = None,
    inference_precision: str | None = None,
    screened: bool = False,
) -> Performance:
    """Latency over all processes of one contender. `items`: samples in one call."""
    calls = np.concatenate([burst.calls_ns for one in entrants for burst in one.bursts]) / NS_PER_MS
    mean_ms = float(calls.mean())
    loads = [one.load_s for one in entrants if one.load_s]
    return Performance(
        median_ms=float(np.median(calls)),
        mean_ms=mean_ms,
        p90_ms=float(np.percentile(calls, 90)),
        p99_ms=float(np.percentile(calls, 99)),
        calls=len(calls),
        processes=len(entrants),
        throughput_per_s=items * 1e3 / mean_ms,
        peak_memory_bytes=peak_memory_bytes(entrants),
        page_faults_per_call=sum(b.page_faults for one in entrants for b in one.bursts) / len(calls),
        load_s=float(np.median(loads)) if loads else None,
        compile_s=compile_s,
        artifact_bytes=artifact_bytes,
        inference_precision=inference_precision,
        screened=screened,
    )


def peak_memory_bytes(entrants: Sequence[Entrant]) -> int | None:
    """The most that any process took: the allocator's peak on a GPU, else resident memory above that after import."""
    on_device = [one.allocator_peak_bytes for one in entrants if one.allocator_peak_bytes is not None]
    if on_device:
        return max(on_device)
    resident = [
        max(0, one.peak_rss_bytes - one.base_rss_bytes)
        for one in entrants
        if one.peak_rss_bytes is not None and one.base_rss_bytes is not None
    ]
    return max(resident) if resident else None


def raw_samples(entrants: Sequence[Entrant]) -> list[dict[str, Any]]:
    """Everything that was measured, one entry per process, as results and reports keep it."""
    return [
        {
            "calls_ns": [burst.calls_ns.tolist() for burst in one.bursts],
            "outside_ns": [burst.outside_ns for burst in one.bursts],
            "page_faults": [burst.page_faults for burst in one.bursts],
            "wait_ns": [burst.wait_ns for burst in one.bursts],
            "device_ns": [b.device_ns.tolist() for b in one.bursts if b.device_ns is not None],
            "first_ns": one.first_ns,
            "clock_ns": one.clock_ns,
            "stable": one.stable,
            "refused_bursts": one.refusals,
            "load_s": one.load_s,
        }
        for one in entrants
    ]


def disturbed_shares(samples: Mapping[str, Sequence[Entrant]]) -> dict[str, float]:
    """By contender, the share of bursts whose threads waited for a core for more than 1 % of the time. They are kept;
    the result shows how many they were."""
    return {name: round(_disturbed_share(entrants), 3) for name, entrants in samples.items()}


def _disturbed_share(entrants: Sequence[Entrant]) -> float:
    bursts = [burst for one in entrants for burst in one.bursts]
    waited = [burst for burst in bursts if burst.wait_ns is not None and burst.wait_ns > 0.01 * burst.outside_ns]
    return len(waited) / len(bursts) if bursts else 0.0


def held_back(speedup: float, best_ms: float, roofline_ms: float | None = None) -> str | None:
    """Why a result is checked again before it is told to anyone."""
    if speedup > HELD_BACK_SPEEDUP:
        return f"it is {speedup:.1f} times faster than the baseline"
    if roofline_ms is not None and best_ms < roofline_ms:
        return f"it takes {best_ms:.3g} ms where the machine's roofs allow no less than {roofline_ms:.3g} ms"
    return None


def recheck(
    starts: Mapping[str, Start],
    base: str,
    other: str,
    draw: Draw,
    *,
    judged_speedup: float,
    rng: np.random.Generator,
    checks: Mapping[str, Check],
    reference: Child | None = None,
    rounds: int = 5,
) -> str | None:
    """Measures a held-back result once more with every timed answer compared. The reason to reject it, or None.

    `starts` may hold more contenders; only the two are started. Raises FuseworksError when an answer is wrong.
    """
    one = measure_set(
        {name: starts[name] for name in (base, other)},
        draw,
        baseline=base,
        essential={other},
        rng=rng,
        rounds=rounds,
        checks=checks,
        reference=reference,
        check_all=True,
    )
    again = math.exp(one.log_speedup(base, other))
    if abs(math.log(again / judged_speedup)) > math.log(1 + RECHECK_SHARE):
        return f"measured again it is {again:.2f} times as fast, not {judged_speedup:.2f} times"
    return None
