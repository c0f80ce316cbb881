"""Stands in for `python -m optimizer`: behaves as the first word of the model file says; records its spec."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main(verb: str, *rest: str) -> int:
    if verb != "run":
        print(json.dumps([verb, *rest]))
        return int(os.environ.get("FAKE_CODE", "0"))
    spec = json.loads(Path(rest[0]).read_text())
    fd = int(rest[2])
    assert rest[1] == "--events-fd"
    out = Path(spec["out"])
    (out / "seen.json").write_text(json.dumps(spec))
    behaviour = Path(spec["model"]).read_text().split()[0]

    def event(**fields: object) -> None:
        os.write(fd, json.dumps({"at_s": 1.0, "budget_s": 60.0, **fields}).encode() + b"\n")

    def answer(**changes: object) -> None:
        document = json.loads(Path(os.environ["FAKE_RESULT"]).read_text())
        (out / "result.json").write_text(json.dumps({**document, **changes}))

    event(kind="capturing", message="Capturing the graph")
    event(kind="compiling", message="building \x1b]0;owned\x07 now", candidate="openvino", done=1, total=4)
    print("noise on stdout")
    problem = {
        "id": "capture:user:x",
        "side": "user",
        "message": "No export",
        "place": "model.py:41",
        "remedy": "Mend it.",
    }
    if behaviour == "ok":
        answer()
    elif behaviour == "packages":
        (out / "package").mkdir()
        (out / "package" / "run.py").write_text("")
        (out / "package.zip").write_text("")
        answer()
    elif behaviour == "user":
        answer(status="failed", problem=problem)
        return 4
    elif behaviour == "ours":
        answer(status="errored", problem={**problem, "id": "x:ours:y", "side": "ours", "detail": "Traceback\n  line 9"})
        return 3
    elif behaviour == "crash":
        print("Segmentation fault in here", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif behaviour == "usage":
        print("run:usage:spec: workload.inputs: Field required", file=sys.stderr)
        return 64
    elif behaviour in {"hang", "stubborn"}:
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (out / "pids").write_text(f"{os.getpid()} {grandchild.pid}")
        if behaviour == "hang":

            def polite(*_: object) -> None:
                answer(status="cancelled")
                os._exit(130)

            signal.signal(signal.SIGTERM, polite)
        else:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        event(kind="log", message="hanging")
        time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
