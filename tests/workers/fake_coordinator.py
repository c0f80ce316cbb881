"""Stands in for `python -m optimizer`: behaves as the words of the model file say. Standard library only, to be quick.

`ok [SECONDS]`, `user`, `crash`, `silent`, `usage`, `garbled`, `noisy`, `hang` (ends politely), `stubborn` (does not),
`finished-then-hangs`. FAKE_DIARY names a file that gets a line at each start and end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def main(verb: str, *rest: str) -> int:
    if verb == "manifest":
        print(json.dumps({"passes": [], "target": rest[1]}))
        return 0
    spec = json.loads(Path(rest[0]).read_text())
    assert rest[1] == "--events-fd"
    return Fake(spec, int(rest[2])).run()


class Fake:
    def __init__(self, spec: dict[str, Any], events: int) -> None:
        self.spec, self.events = spec, events
        self.out = Path(spec["out"])
        self.words = Path(spec["model"]).read_text().split()

    def run(self) -> int:
        self.diary("start")
        self.event(kind="capturing", message="Capturing the graph")
        code: int = getattr(self, self.words[0].replace("-", "_"))()
        self.diary("end")
        return code

    def diary(self, what: str) -> None:
        if "FAKE_DIARY" in os.environ:
            with open(os.environ["FAKE_DIARY"], "a") as file:
                file.write(f"{what} {os.getpid()} {' '.join(self.words)} {time.time()}\n")

    def event(self, **fields: object) -> None:
        line = json.dumps({"at_s": 0.5, "budget_s": self.spec["policy"]["budget_s"], **fields}).encode() + b"\n"
        while line:
            line = line[os.write(self.events, line) :]

    def answer(self, status: str = "succeeded", **more: object) -> None:
        document: dict[str, object] = {"purpose": self.spec["purpose"], "status": status, "summary": status, **more}
        if "FAKE_RESULT" in os.environ:
            document = {**json.loads(Path(os.environ["FAKE_RESULT"]).read_text()), **document}
        (self.out / "result.json").write_text(json.dumps(document))

    def grandchild(self) -> None:
        """In a session of its own, as sandboxed children are."""
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True, close_fds=True
        )
        (self.out.parent / "pids").write_text(f"{os.getpid()} {child.pid}")
        if "FAKE_PIDS" in os.environ:
            Path(os.environ["FAKE_PIDS"]).write_text(f"{os.getpid()} {child.pid}")

    # ---- behaviours --------------------------------------------------------------------------------------------------

    def ok(self) -> int:
        seconds = float(self.words[1]) if len(self.words) > 1 else 0.0
        for step in range(max(1, round(seconds / 0.1))):
            self.event(kind="benchmarking", message=f"Step {step}", candidate="openvino", done=step, total=10)
            time.sleep(min(0.1, seconds))
        print("worked")
        (self.out / "report.html").write_text("<h1>Report</h1>")
        (self.out / "recipe.yaml").write_text("kind: Recipe\n")
        report = {"name": "report", "path": str(self.out / "report.html"), "size_bytes": 15, "sha256": "0" * 64}
        self.answer(artifacts=[report])
        return 0

    def user(self) -> int:
        self.answer("failed", problem={"id": "capture:user:x", "side": "user", "message": "No export"})
        return 4

    def crash(self) -> int:
        print("Segmentation fault in here", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
        return 0

    def silent(self) -> int:
        return 3

    def usage(self) -> int:
        print("run:usage:spec: workload.inputs: Field required", file=sys.stderr)
        return 64

    def garbled(self) -> int:
        (self.out / "result.json").write_text('{"purpose": "optimize", "status": "splendid"}')
        return 0

    def noisy(self) -> int:
        line = "x" * 1023 + "\n"
        print("the beginning")
        for _ in range(6 << 10):
            sys.stdout.write(line)
        print("the end")
        os.write(self.events, b"no event\n")
        self.answer()
        return 0

    def hang(self) -> int:
        self.grandchild()

        def polite(*_: object) -> None:
            for step in range(2000):  # more than a pipe holds
                self.event(kind="log", message=f"ending {step}")
            self.answer("cancelled", summary="half done")
            os._exit(130)

        signal.signal(signal.SIGTERM, polite)
        self.event(kind="log", message="hanging")
        time.sleep(600)
        return 0

    def stubborn(self) -> int:
        self.grandchild()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.event(kind="log", message="hanging")
        time.sleep(600)
        return 0

    def finished_then_hangs(self) -> int:
        self.answer()
        self.event(kind="log", message="hanging")
        time.sleep(600)
        return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
