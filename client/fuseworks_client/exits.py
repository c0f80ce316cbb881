"""Exit codes of the command, the same in every verb."""

from __future__ import annotations

DONE = 0
OURS = 3
USER = 4
USAGE = 64
INTERRUPTED = 130


def of_status(status: str) -> int:
    """Of a run that ended so, as the optimizer's own exit codes are: a run that was cancelled or came to its time limit
    is not the model's fault."""
    return {"succeeded": DONE, "failed": USER}.get(status, OURS)


HELP = """\b
Exit codes:
  0    done, "no faster recipe found" included
  3    Fuseworks' or this machine's fault
  4    the model's or the recipe's fault; the message says what to mend
  64   the command makes no sense as it was typed
  130  interrupted"""
