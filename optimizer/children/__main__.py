"""A child: answers operations that arrive on the inherited descriptor until it is told to leave.

An operation `stage.name` is the function `name` of `optimizer.<stage>.child`, listed in that module's OPERATIONS:
`def name(session, request, arrays) -> (fields, arrays)`. What is printed is the log, never the protocol.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np


def main(fd: int) -> None:
    started = time.perf_counter()
    from optimizer.children import wire
    from optimizer.children.session import Session

    session = Session(fd=fd, scratch=Path(os.environ["FUSEWORKS_SCRATCH"]))
    wire.send(fd, {"event": "ready", "pid": os.getpid(), "start_s": time.perf_counter() - started})
    while True:
        try:
            header, arrays = wire.receive(fd)
        except EOFError:
            return
        if header.get("op") == "leave":
            return
        fields, answer = _answer(session, header, arrays)
        wire.send(fd, {"event": "done", **fields}, answer)


def _answer(session: Any, header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
    from optimizer.errors import FuseworksError

    try:
        stage, _, name = str(header["op"]).partition(".")
        module = importlib.import_module(f"optimizer.{stage}.child")
        fields, answer = module.OPERATIONS[name](session, header, arrays)
        return fields, list(answer)
    except FuseworksError as error:
        traceback.print_exc()
        return {"error": error.document()}, []
    except MemoryError:
        traceback.print_exc()
        return {"error": {"id": "child:user:out-of-memory", "detail": "MemoryError"}}, []
    except Exception as error:  # the process boundary: every exception becomes an answer, with its traceback
        traceback.print_exc()
        document = {
            "id": "child:user:exception",
            "context": {"type": type(error).__name__, "text": str(error)[:2000]},
            "detail": traceback.format_exc()[-8000:],
        }
        return {"error": document}, []


if __name__ == "__main__":
    main(int(sys.argv[1]))
