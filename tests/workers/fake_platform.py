"""The worker's API of a platform with one run: a real HTTP server in a thread, which notes all and can misbehave."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from workers.messages import RunMessage

RUN = "6f1c1b5e-7c1d-4c0b-9a7e-2f1f3a2b4c5d"
TOKEN = "attempt-token-" + "t" * 32
STALE = (409, "runs:usage:stale", "the attempt is over")
WAIT_S = 30.0


@dataclass
class Platform:
    """`refuse` (always) and `refuse_once` map a verb to its answer (status, id, text); `unwell` counts 503s to come;
    the first answer to a verb of `lose` gets lost, after it was acted upon."""

    model: bytes = b"ok"
    against: bytes | None = None
    filename: str = "model.py"
    purpose: str = "optimize"
    target: str = "cpu"
    recipe: dict[str, Any] | None = None
    lease_s: float = 20.0
    time_left_s: float = 600.0
    attempt: int = 1
    cancel: bool = False
    unwell: int = 0
    lose: set[str] = field(default_factory=set)
    sha256: str | None = None
    refuse: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    refuse_once: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    claimed_by: str | None = None
    keys: list[str] = field(default_factory=list)
    events: dict[int, dict[str, Any]] = field(default_factory=dict)
    posts: list[tuple[int, int]] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    results: list[dict[str, Any]] = field(default_factory=list)
    give_ups: list[str] = field(default_factory=list)
    stopped: list[bool] = field(default_factory=list)
    works: list[bool] = field(default_factory=list)
    hellos: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self.answering = threading.Event()  # cleared: requests hang
        self.answering.set()
        platform = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Quiet."""

            def handle_one(self) -> None:
                platform.handle(self)

            do_GET = do_POST = do_PUT = handle_one

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.05], daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def message(self) -> RunMessage:
        fields = {"run_id": RUN, "attempt": self.attempt, "api": self.address, "token": TOKEN}
        return RunMessage.model_validate(fields)

    def close(self) -> None:
        self.answering.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def wait_for(self, what: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(what, WAIT_S), f"it did not happen; calls: {self.calls[-20:]}"

    def messages(self) -> list[str]:
        return [self.events[number]["message"] for number in sorted(self.events)]

    # ---- answering ---------------------------------------------------------------------------------------------------

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        self.answering.wait()
        parts = urlsplit(request.path)
        words = parts.path.strip("/").split("/")
        assert words[:3] == ["api", "v1", "worker"], request.path
        verb = words[3] if words[3] != "runs" else words[5]
        status, document = self.answer(verb, words, parse_qs(parts.query), body, request)
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        with self.changed:
            self.calls.append(verb)
            self.tokens.add(request.headers.get("Authorization", ""))
            self.changed.notify_all()
        with contextlib.suppress(BrokenPipeError):  # whoever asked went away
            request.send_response(status)
            request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data)

    def answer(
        self, verb: str, words: list[str], query: dict[str, list[str]], body: bytes, request: BaseHTTPRequestHandler
    ) -> tuple[int, Any]:
        if self.unwell:
            self.unwell -= 1
            return 503, {"title": "resting"}
        refusal = self.refuse_once.pop(verb, None) or self.refuse.get(verb)
        if refusal is not None:
            status, id_, text = refusal
            return status, {"id": id_, "title": text, "detail": text}
        if verb == "files":
            assert query["attempt"] == [str(self.attempt)]
            return 200, self.model if words[6] == "model" else self.against
        if verb == "artifacts":
            assert query["attempt"] == [str(self.attempt)]
            if hashlib.sha256(body).hexdigest() != request.headers["X-Content-SHA256"]:
                return 422, {"id": "runs:usage:hash"}
            self.artifacts[words[6]] = body
            return 201, {}
        document = json.loads(body)
        if words[3] == "runs":
            assert words[4] == RUN and document["attempt"] == self.attempt
        answer = getattr(self, f"on_{verb.replace('-', '_')}")(document)
        if verb in self.lose:
            self.lose.remove(verb)
            return 503, {"title": "lost on the way"}
        return 200, answer

    def on_claim(self, document: dict[str, Any]) -> dict[str, Any]:
        self.claimed_by = document["worker"]
        self.works.append(document["works"])
        self.keys.append(document["key"])
        files = {"model": self.file("model", self.model)}
        if self.against is not None:
            files["against"] = self.file("against", self.against)
        policy = {"budget_s": 60.0}
        return {
            "purpose": self.purpose,
            "target": self.target,
            "policy": policy,
            "workload": None,
            "files": files,
            "recipe": self.recipe,
            "lease_s": self.lease_s,
            "time_left_s": self.time_left_s,
            "of_a_later_version": True,
        }

    def file(self, role: str, data: bytes) -> dict[str, Any]:
        return {
            "address": f"/api/v1/worker/runs/{RUN}/files/{role}/?attempt={self.attempt}",
            "filename": self.filename,
            "sha256": self.sha256 or hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
        }

    def on_heartbeat(self, document: dict[str, Any]) -> dict[str, Any]:
        self.works.append(document["works"])
        return {"lease_s": self.lease_s, "cancel": self.cancel, "time_left_s": self.time_left_s}

    def on_events(self, document: dict[str, Any]) -> dict[str, Any]:
        self.posts.append((document["first"], len(document["events"])))
        for number, event in enumerate(document["events"], document["first"]):
            self.events.setdefault(number, event)
        return {"next": len(self.events)}

    def on_finish(self, document: dict[str, Any]) -> dict[str, Any]:
        self.results.append(document["result"])
        return {}

    def on_give_up(self, document: dict[str, Any]) -> dict[str, Any]:
        self.give_ups.append(document["reason"])
        self.stopped.append(document["stopping"])
        return {}

    def on_hello(self, document: dict[str, Any]) -> dict[str, Any]:
        self.hellos.append(document)
        return {"worker_id": "1", "heartbeat_s": 1}

    def on_alive(self, _: dict[str, Any]) -> dict[str, Any]:
        return {}

    def on_goodbye(self, _: dict[str, Any]) -> dict[str, Any]:
        return {}


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be collected does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(what: Callable[[], bool], seconds: float = WAIT_S) -> None:
    """For what no event tells: files and processes of others."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
