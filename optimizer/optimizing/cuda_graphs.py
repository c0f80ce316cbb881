"""When recording a model's kernels once and replaying them (CUDA graphs) is worth a candidate. Pure: no torch.

A recorded graph saves the launches, so it pays where launching bounds the call; it holds for one shape, so it is not
for workloads whose dimensions vary. Whether it pays is measured, and whether it answers right is verified, as ever.
"""

from __future__ import annotations

from optimizer.result import Profile

# What a kernel's launch and its operation's dispatch cost a CPU core; an operation that takes no longer than a few of
# them on the device leaves the device waiting. A guess that only decides what is tried.
LAUNCH_MS = 0.01
SHORT_LAUNCHES = 3.0
MIN_SHARE = 0.3
MIN_OPERATIONS = 8


def launch_bound(profile: Profile | None) -> str | None:
    """What shows that launches bound the call, in words; None where the profile does not show it."""
    if profile is None or profile.total_ms <= 0:
        return None
    short = [row for row in profile.operations if row.calls and row.self_ms / row.calls <= SHORT_LAUNCHES * LAUNCH_MS]
    calls, share = sum(row.calls for row in short), sum(row.self_ms for row in short) / profile.total_ms
    if calls < MIN_OPERATIONS or share < MIN_SHARE:
        return None
    return f"{calls} operations of at most {SHORT_LAUNCHES * LAUNCH_MS * 1e3:.0f} µs make {share:.0%} of a call"


def refusal(target: str, bound: str | None, serve_sizes: int) -> str | None:
    """Why recording is not proposed; None when it is, and the empty text where nobody would expect it."""
    if target.partition(":")[0] != "cuda":
        return ""
    if serve_sizes:
        return "its dimensions vary, and a recorded graph holds for one shape: serve one size to have it tried"
    if bound is None:
        return "the profile does not show that launching kernels bounds the call"
    return None
