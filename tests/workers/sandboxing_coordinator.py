"""Stands in for `python -m optimizer`, and starts a real child in a real sandbox: the model file names which."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from optimizer.sandbox import ChildSpec, start


def main() -> None:
    spec = json.loads(Path(sys.argv[2]).read_text())
    mode = Path(spec["model"]).read_text()
    with start(ChildSpec("sleeper", trusted=mode == "trusted"), mode=mode):  # type: ignore[arg-type]
        event = {"kind": "log", "at_s": 0, "budget_s": 1, "message": f"child is up {os.getpid()}"}
        os.write(int(sys.argv[4]), json.dumps(event).encode() + b"\n")
        time.sleep(600)


if __name__ == "__main__":
    main()
