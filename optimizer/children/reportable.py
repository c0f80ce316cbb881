"""Which errors a child may report: those that its own operations raise.

Whose fault an error is decides how a run ends, so that an upload which could report any error could end the run as our
fault, or blame the machine. What only the coordinator can know (the sandbox, the clocks) is never a child's to tell.
"""

from __future__ import annotations

STAGES = frozenset({"capturing", "diagnosing", "optimizing", "compiling", "predicting", "verifying"})
OF_ANY_OPERATION = frozenset(
    {
        "child:user:exception",
        "child:user:out-of-memory",
        "child:user:disk-full",
        "child:user:bad-answer",
        "child:ours:unexpected",
    }
)
OURS = frozenset(
    {
        "capturing:ours:format",
        "capturing:ours:save",
        "optimizing:ours:bad-graph",
        "optimizing:ours:export-again",
        "optimizing:ours:pass-failed",
        "compiling:ours:artifact",
        "compiling:ours:compile-error",
        "compiling:ours:outputs",
        "compiling:ours:toolchain",
        "compiling:ours:unavailable",
        "predicting:ours:unavailable",
        "profiling:ours:untold",
    }
)


def may_report(id_: str) -> bool:
    """Of a catalogued id. The model's own faults are a stage's to tell; ours only where they are listed."""
    stage, _, rest = id_.partition(":")
    return id_ in OF_ANY_OPERATION or id_ in OURS or (stage in STAGES and rest.startswith("user:"))
