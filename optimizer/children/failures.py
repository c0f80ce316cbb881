"""Turns what an operation raised into the error document that travels: which error it is, and where it happened."""

from __future__ import annotations

import errno
import sys
import traceback
from pathlib import Path
from typing import Any

from optimizer.errors import FuseworksError

# torch and numpy say it in words, not by a class of their own
NO_MEMORY_WORDS = ("can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc")
OWN_PACKAGES = Path(__file__).resolve().parents[1], Path(__file__).resolve().parents[2] / "kernels"
REWRITING = OWN_PACKAGES[0] / "optimizing"


def document(error: BaseException) -> dict[str, Any]:
    detail = "".join(traceback.format_exception(error))[-8000:]
    if isinstance(error, FuseworksError):
        own = error.document()
        return {**own, "detail": own["detail"] or detail}
    place = users_line(error)
    for id_, applies in (("child:user:out-of-memory", out_of_memory), ("child:user:disk-full", disk_full)):
        if applies(error):
            return {"id": id_, "place": place, "detail": detail}
    if place is None and raised_by_us(error):
        return {"id": "child:ours:unexpected", "detail": detail}
    context = {"type": type(error).__name__, "text": text_of(error)[:2000]}
    return {"id": "child:user:exception", "place": place, "context": context, "detail": detail}


def raised_by_us(error: BaseException) -> bool:
    """The innermost frame is this project's own code, so that no library that works on the model is to blame.

    Or the innermost of our own frames rewrites graphs: whatever torch raises there, it was we who asked for it.
    """
    frames = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    own = [frame for frame in frames if any(frame.is_relative_to(folder) for folder in OWN_PACKAGES)]
    return bool(own) and (own[-1] is frames[-1] or own[-1].is_relative_to(REWRITING))


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # a model's own exception class may fail to print itself
        return f"(its text cannot be had: {type(second).__name__})"


def out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    text = text_of(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in NO_MEMORY_WORDS)


def disk_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def users_line(error: BaseException) -> str | None:
    """`file:line` of the innermost frame that is neither a library's nor ours."""
    libraries = [*OWN_PACKAGES, *(Path(p) for p in {sys.prefix, sys.base_prefix, "/usr"})]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_absolute() and not any(path.is_relative_to(folder) for folder in libraries):
            return f"{path.name}:{frame.lineno}"
    return None
