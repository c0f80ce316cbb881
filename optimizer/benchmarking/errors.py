"""What can go wrong while contenders are measured."""

from __future__ import annotations

from optimizer.errors import catalogue

catalogue(
    {
        "benchmarking:user:clock": (
            "The times reported by the process running {name} do not add up to what was seen from outside: "
            "{inside_ms} ms against {outside_ms} ms, for the {refusals}th time in one round.",
            "Work that goes on after a call has returned, or a changed clock, causes this; on a very busy machine, "
            "stop other work and run again.",
        ),
        "benchmarking:user:gap": (
            "The times reported by the process running {name} do not add up: {gap_ms} ms of each burst passed outside "
            "of its calls, where it was {others_ms} ms for the others.",
            "Work that goes on after a call has returned, or a changed clock, causes this.",
        ),
        "benchmarking:user:threads": (
            "The process running {name} kept {cores} cores busy while it was timed, and was given {threads} threads.",
            "Remove what starts threads of its own, or allow as many with the policy's `threads`.",
        ),
        "benchmarking:ours:busy": (
            "This machine is too busy to time {name}: {refusals} bursts of one round were disturbed, "
            "while other work wanted its {cores} cores.",
            "Stop other work on this machine, or use one that is idle, and run again.",
        ),
        "benchmarking:user:did-not-repeat": (
            "A result that was too good to be told at once did not repeat: {text}.",
            "Nothing is offered on it. Run again on a quieter machine, with a larger --budget.",
        ),
        "benchmarking:user:answers-changed": (
            "While it was timed, {name} answered otherwise than the original: {text}",
            "The answers were right in verification, so they depend on the order or number of calls.",
        ),
    }
)
