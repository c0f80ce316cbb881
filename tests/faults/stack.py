"""A whole installation, with short leases and a stand-in for the coordinator, so that runs take a second.

Rows are read from PostgreSQL directly; runs are made over the public API.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import redis
from psycopg.rows import dict_row

from fuseworks.embedded.postgres import Postgres
from fuseworks.embedded.valkey import Valkey, free_port
from tests.faults.processes import ROOT, Running
from tests.workers.fake_platform import wait_until

QUEUE = "fuseworks.cpu"
COORDINATOR = ROOT / "tests" / "workers" / "fake_coordinator.py"
TERMINAL = {"succeeded", "failed", "errored", "cancelled", "timed_out"}
VERSIONS = {
    "quick": "ok 0.2",
    "second": "ok 1",
    "two seconds": "ok 2",
    "five seconds": "ok 5",
    "eight seconds": "ok 8",
    "half a minute": "ok 30",
    "hang": "hang",
}


class Stack:
    def __init__(self, folder: Path, *, lease_s: int, claim_within_s: int) -> None:
        folder.chmod(0o711)  # PostgreSQL drops root and must reach its own folder in here
        self.folder, self.lease_s, self.claim_within_s = folder, lease_s, claim_within_s
        self.postgres = Postgres(folder / "postgres", durable=False)
        self.valkey = Valkey(folder / "valkey")
        self.diary = folder / "diary"
        self.port = free_port()
        self.processes: list[Running] = []
        self.web: Running | None = None
        self.dispatcher: Running | None = None

    # ---- up and down -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.postgres.start()
        self.postgres.ensure_database("faults")
        self.valkey.start()
        self.manage("migrate", "--no-input")
        words = [f"{name}={content}" for name, content in VERSIONS.items()]
        seeded = json.loads(self._python("-m", "tests.faults.seed", *words))
        self.versions: dict[str, str] = seeded["versions"]
        self.token: str = seeded["token"]
        self.start_web()
        self.start_dispatcher()

    def stop(self) -> None:
        for process in self.processes:
            process.force_end()
        self.valkey.stop()
        self.postgres.stop()

    @property
    def environment(self) -> dict[str, str]:
        site = f"http://127.0.0.1:{self.port}"
        return {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "platform", "client")),
            "DJANGO_SETTINGS_MODULE": "fuseworks.settings.testing",
            "DATABASE_URL": self.postgres.url("faults"),
            "REDIS_URL": self.valkey.url,
            "FUSEWORKS_STORAGE": str(self.folder / "storage"),
            "FUSEWORKS_WORKER_API_URL": site,
            "FUSEWORKS_WORKER_TOKEN": "worker-token-for-tests",
            "FUSEWORKS_LEASE_S": str(self.lease_s),
            "FUSEWORKS_CLAIM_WITHIN_S": str(self.claim_within_s),
            "FUSEWORKS_MAX_ATTEMPTS": "10",
            "FAKE_DIARY": str(self.diary),
        }

    def _run(self, name: str, *command: str, **environment: str) -> Running:
        log = self.folder / f"{name}.log"
        running = Running([sys.executable, *command], {**self.environment, **environment}, log)
        self.processes.append(running)
        return running

    def _python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def manage(self, *arguments: str) -> str:
        return self._python("manage.py", *arguments)

    def start_web(self) -> None:
        where = ("--host", "127.0.0.1", "--port", str(self.port), "--log-level", "warning")
        self.web = self._run("web", "-m", "uvicorn", "fuseworks.asgi:application", *where)
        wait_until(self._web_answers)

    def _web_answers(self) -> bool:
        assert self.web is not None and self.web.is_running(), self.web and self.web.text()[-3000:]
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{self.port}/api/v1/runs/", timeout=5).status_code == 401
        return False

    @contextlib.contextmanager
    def lease(self, seconds: int) -> Iterator[None]:
        """Another lease, and for that another start of the web site."""
        assert self.web is not None
        usual, self.lease_s = self.lease_s, seconds
        self.web.kill()
        self.start_web()
        try:
            yield
        finally:
            self.lease_s = usual
            self.web.kill()
            self.start_web()

    def start_dispatcher(self) -> None:
        self.dispatcher = self._run("dispatcher", "manage.py", "dispatch")

    def worker(self, name: str) -> Running:
        """Ready for runs. Each has devices of its own, as on a host of its own."""
        began = self.now()
        running = self._run(
            f"worker-{name}",
            "-m",
            "workers",
            FUSEWORKS_WORKER_NAME=name,
            FUSEWORKS_WORKER_SCRATCH=str(self.folder / f"scratch-{name}"),
            FUSEWORKS_COORDINATOR=f"{sys.executable} -S {COORDINATOR}",
        )

        def said_hello() -> bool:
            assert running.is_running(), running.text()[-3000:]
            rows = self.rows("SELECT last_seen_at FROM fleet_worker WHERE name = %s AND stopped_at IS NULL", name)
            return bool(rows) and rows[0]["last_seen_at"] > began

        wait_until(said_hello)
        return running

    # ---- runs --------------------------------------------------------------------------------------------------------

    def create(self, version: str) -> str:
        asked = {"version": self.versions[version], "purpose": "optimize", "policy": {"budget_s": 60}}
        return str(self.api("POST", "runs/", json=asked)["id"])

    def api(self, method: str, path: str, **request: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx.request(
            method, f"http://127.0.0.1:{self.port}/api/v1/{path}", headers=headers, timeout=30, **request
        )
        assert answer.status_code < 300, answer.text
        return answer.json()

    def run(self, run_id: str) -> dict[str, Any]:
        (row,) = self.rows("SELECT * FROM runs_run WHERE id = %s", run_id)
        return row

    def attempts(self, run_id: str) -> list[dict[str, Any]]:
        return self.rows(
            "SELECT a.*, w.name AS worker FROM runs_attempt a LEFT JOIN fleet_worker w ON w.id = a.worker_id "
            "WHERE a.run_id = %s ORDER BY a.number",
            run_id,
        )

    def claimed(self, run_id: str) -> list[dict[str, Any]]:
        return [attempt for attempt in self.attempts(run_id) if attempt["claimed_at"] is not None]

    def wait_for_work(self, run_id: str) -> dict[str, Any]:
        """Until its coordinator has said something; the attempt."""
        wait_until(lambda: bool(self.run(run_id)["stage"]))
        return self.claimed(run_id)[-1]

    def wait_for_end(self, run_ids: Iterable[str], seconds: float = 90.0) -> None:
        wanted = list(run_ids)

        def over() -> bool:
            rows = self.rows(
                "SELECT count(*) AS n FROM runs_run WHERE id = ANY(%s) AND status = ANY(%s)", wanted, [*TERMINAL]
            )
            return bool(rows[0]["n"] == len(wanted))

        wait_until(over, seconds)

    def assert_ended_once(self, run_id: str, status: str = "succeeded") -> None:
        """One end, one result and one set of files, all of the attempt that ended it; every other attempt is closed."""
        run = self.run(run_id)
        assert run["status"] == status, (run["status"], run["problem"], run["summary"])
        ends = self.rows("SELECT * FROM runs_flip WHERE run_id = %s AND after = ANY(%s)", run_id, [*TERMINAL])
        assert [(end["after"], end["attempt"]) for end in ends] == [(status, run["attempt"])]
        *before, last = self.attempts(run_id)
        assert (last["state"], last["number"]) == ("ended", run["attempt"])
        assert {attempt["state"] for attempt in before} <= {"expired", "unclaimed", "gave_up", "stopped"}
        results = self.rows("SELECT attempt FROM results_runresult WHERE run_id = %s", run_id)
        assert [result["attempt"] for result in results] == [run["attempt"]]
        numbers = self.rows(
            "SELECT number FROM runs_runevent WHERE run_id = %s AND attempt = %s ORDER BY number",
            run_id,
            run["attempt"],
        )
        assert [row["number"] for row in numbers] == list(range(len(numbers))) and numbers
        if status == "succeeded":
            files = self.rows(
                "SELECT name FROM runs_artifact WHERE run_id = %s AND attempt = %s ORDER BY name",
                run_id,
                run["attempt"],
            )
            assert [row["name"] for row in files] == ["log.txt", "recipe.yaml", "report.html"]

    # ---- servers -----------------------------------------------------------------------------------------------------

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.postgres.url("faults"), row_factory=dict_row, autocommit=True) as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[arg-type]

    def now(self) -> Any:
        return self.rows("SELECT now() AS now")[0]["now"]

    def broker(self) -> redis.Redis:
        return redis.Redis.from_url(self.valkey.url)

    def freeze_idle(self, worker: Running) -> None:
        """Frozen with no question open at the broker: a message to it stays in the queue."""
        worker.freeze()
        time.sleep(1.5)  # the broker answers an open question after a second

    def queued_messages(self) -> list[bytes]:
        return list(self.broker().lrange(QUEUE, 0, -1))  # type: ignore[arg-type]
