"""What a worker can say went wrong, beside what the optimizer says. All of it is told to the platform."""

from __future__ import annotations

from optimizer.errors import catalogue

RETRY = "Retry the run; if it ends so again, report it with the end of its log below."

catalogue(
    {
        "worker:ours:coordinator-died": (
            "The process that works the run ended before it came to an answer ({how}).",
            RETRY,
        ),
        "worker:ours:bad-result": (
            "The process that works the run left a result that this worker cannot read: {text}",
            RETRY,
        ),
        "worker:ours:spec-refused": (
            "The worker's optimizer refuses what the run asks for: {text}",
            "Web site and workers are of different versions: bring them to the same one and retry the run.",
        ),
        "worker:ours:result-refused": ("The platform refused the run's result: {text}", RETRY),
        "worker:ours:time-limit": (
            "The run was ended: it had worked for its whole time limit.",
            "Ask for a smaller budget, or for a larger time limit.",
        ),
        "worker:ours:bad-download": (
            "The worker could not get the file {name}: {text}",
            "It is tried again on another attempt; check the storage of the platform when it stays.",
        ),
        "worker:ours:stopping": (
            "The worker was stopped while it worked the run.",
            "Nothing is to be done: the run goes back to the queue, and loses no attempt by it.",
        ),
        "worker:ours:frozen": (
            "The worker stood still for longer than the platform bears its silence, so that the run was ended.",
            "Look after the worker's machine: it was suspended, or out of memory or processor time.",
        ),
        "worker:ours:no-room": (
            "The worker's machine failed while it prepared or stored the run: {text}",
            "Look after that machine: its disk ({folder}) and its limits.",
        ),
        "worker:ours:unexpected": ("The worker failed in a way that nobody foresaw: {text}", RETRY),
    }
)
