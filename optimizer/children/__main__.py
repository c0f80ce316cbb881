"""A child: answers operations that arrive on the inherited descriptor until it is told to leave.

An operation `stage.name` is the function `name` of `optimizer.<stage>.child`, listed in that module's OPERATIONS:
`def name(session, request, arrays) -> (fields, arrays)`. What is printed is the log, never the protocol.
"""

from __future__ import annotations

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

    os.set_inheritable(fd, False)  # compilers that the child starts have no business on the wire
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
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            wire.send(fd, {"event": "done", **fields}, answer)
        except wire.ProtocolError as error:
            wire.send(fd, {"event": "done", "error": {"id": "child:ours:unexpected", "detail": str(error)[:2000]}})


def _answer(session: Any, header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
    from optimizer.children.failures import document
    from optimizer.children.operations import find

    try:
        fields, answer = find(str(header["op"]))(session, header, arrays)
        return fields, list(answer)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # the process boundary: each becomes an answer
        traceback.print_exc()
        return {"error": document(error)}, []


if __name__ == "__main__":
    main(int(sys.argv[1]))
