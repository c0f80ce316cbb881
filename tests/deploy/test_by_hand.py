"""Production's processes, started by hand: the commands and the environment of docker-compose.yml and of the images,
with servers out of wheels in place of `database` and `broker`, and plain HTTP in place of the proxy.

What containers add (users, volumes, read-only trees, the network) is not tested here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from fuseworks.embedded.children import await_ready, end, spawn, tail
from fuseworks.embedded.postgres import Postgres
from fuseworks.embedded.valkey import Valkey, free_port
from tests.browser import story_coordinator
from tests.deploy.compose import ENVIRONMENT, ROOT, services

SOURCE_ROOTS = os.pathsep.join(str(ROOT / part) for part in (".", "platform"))
EMAIL, PASSWORD = "owner@example.com", "four-quiet-herons-9"
MIB = 1 << 20
START_S = 60.0


class Installation:
    """`folder` in place of all volumes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = Postgres(folder / "postgres", durable=False)
        self.broker = Valkey(folder / "valkey", password=ENVIRONMENT["FUSEWORKS_BROKER_PASSWORD"])
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self, service: str) -> dict[str, str]:
        """As compose gives it, with this machine's addresses for the names of its network; nothing of our own."""
        here = {"database:5432": "", "broker:6379": f"127.0.0.1:{self.broker.port}", "web:8000": self.url[7:]}
        given = {name: str(value or "") for name, value in services()[service]["environment"].items()}
        for name, value in given.items():
            for old, new in here.items():
                value = value.replace(old, new)
            given[name] = value
        if "DATABASE_URL" in given:
            given["DATABASE_URL"] = self.database.url("fuseworks")
            given["FUSEWORKS_HOSTS"] = given["FUSEWORKS_HOSTS"].replace(",web", ",127.0.0.1")
            given.update(FUSEWORKS_PLAIN_HTTP="1", FUSEWORKS_STATE=str(self.folder / "state"))
        else:
            stand_in = shlex.join([sys.executable, "-S", story_coordinator.__file__])
            given.update(FUSEWORKS_COORDINATOR=stand_in, FUSEWORKS_WORKER_SCRATCH=str(self.folder / "scratch"))
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "PYTHONPATH": SOURCE_ROOTS, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **given}

    def command(self, service: str) -> list[str]:
        """Of the compose file, else of the image."""
        built = services()[service]
        words = built.get("command")
        if words is None:
            image = (ROOT / built["build"]["dockerfile"]).read_text()
            words = json.loads(re.findall(r"^CMD (\[.*\])$", image, re.M)[0])
        first = {"python": [sys.executable], "uvicorn": [sys.executable, "-m", "uvicorn"]}[words[0]]
        return [*first, *({"8000": str(self.port), "0.0.0.0": "127.0.0.1"}.get(word, word) for word in words[1:])]

    def once(self, service: str, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        environment = self.environment(service)
        answer = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, **options)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer

    def start(self, service: str, ready: Any) -> None:
        log = self.log(service)
        process = spawn(self.command(service), log=log, environment=self.environment(service), cwd=ROOT)
        self.running[service] = process
        await_ready(service, process, ready, log=log, timeout_s=START_S)

    def log(self, service: str) -> Path:
        return self.folder / f"{service}.log"

    def healthy(self) -> bool:
        """By compose's own health check."""
        words = [word.replace("8000", str(self.port)) for word in services()["web"]["healthcheck"]["test"][2:]]
        command = [sys.executable, *(word.replace("'Host': 'web'", "'Host': '127.0.0.1'") for word in words)]
        return subprocess.run(command, capture_output=True).returncode == 0

    def connections(self) -> int:
        """Of the site and the dispatcher to the database."""
        with psycopg.connect(self.database.url("postgres")) as asking:
            found = asking.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = 'fuseworks'").fetchone()
        assert found is not None
        return int(found[0])

    def stop(self) -> dict[str, int]:
        """The exit codes, last started first."""
        codes = {}
        for service in reversed(list(self.running)):
            process = self.running.pop(service)
            end(process)
            codes[service] = process.returncode
        self.broker.stop()
        self.database.stop()
        return codes


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="fuseworks-tests-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)  # PostgreSQL drops root and must reach its own folder in here
        here = Installation(Path(name))
        try:
            here.database.start()
            here.database.ensure_database("fuseworks")
            here.broker.start()
            here.once("migrate", here.command("migrate"))
            here.start("web", here.healthy)
            here.start("dispatcher", lambda: "dispatching" in tail(here.log("dispatcher")))
            here.start("worker-cpu", lambda: " ready" in tail(here.log("worker-cpu")))
            yield here
        finally:
            here.stop()


@pytest.fixture(scope="module")
def owner(installation: Installation) -> Iterator[httpx.Client]:
    """A browser in which the first owner is signed in, as `create_owner` made him."""
    words = ["manage.py", "create_owner", "--unit", "Advertising", "--team", "Ads ranking", "--email", EMAIL]
    said = installation.once("web", [sys.executable, *words, "--password-stdin"], input=f"{PASSWORD}\n").stdout
    assert f"{EMAIL} owns Ads ranking (ads-ranking) of Advertising." in said
    with httpx.Client(base_url=installation.url, timeout=30) as client:
        client.get("/sign-in/")
        form = {"username": EMAIL, "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        assert client.post("/sign-in/", data=form).status_code == 302
        client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
        yield client


def test_a_model_that_is_uploaded_is_inspected_by_the_worker(owner: httpx.Client, installation: Installation):
    source = (ROOT / "examples" / "din.py").read_bytes()
    uploaded = owner.put("/api/v1/uploads/ads-ranking/din/din.py", content=source)
    assert uploaded.status_code == 201, uploaded.text
    deadline = time.monotonic() + START_S
    while True:
        (run,) = owner.get("/api/v1/runs/").raise_for_status().json()["results"]
        if run["status"] not in ("queued", "running"):
            break
        assert time.monotonic() < deadline, (run, tail(installation.log("worker-cpu")))
        time.sleep(0.1)
    assert (run["purpose"], run["status"]) == ("inspect", "succeeded"), tail(installation.log("worker-cpu"))
    version = owner.get(f"/api/v1/versions/{uploaded.json()['id']}/").raise_for_status().json()
    assert version["sha256"] == uploaded.json()["sha256"]
    fleet = owner.get("/api/v1/workers/").raise_for_status().json()
    assert fleet["dispatcher"] is True
    assert [worker["target"] for worker in fleet["workers"]] == ["cpu"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells another process's open files by /proc")
def test_a_large_body_goes_straight_to_the_storage_and_not_below_tmp(owner: httpx.Client, installation: Installation):
    def half() -> Iterator[bytes]:
        yield bytes(4 * MIB)
        seen.extend(_open_files(installation.running["web"].pid, 4 * MIB))
        yield bytes(MIB)

    seen: list[str] = []
    length = {"Content-Length": f"{5 * MIB}"}
    answer = owner.put("/api/v1/uploads/ads-ranking/din/x.onnx", content=half(), headers=length)
    assert answer.status_code == 422, answer.text  # zeros are no model
    state = installation.folder / "state"
    incoming = state / "storage" / "incoming"
    assert len(seen) == 1 and seen[0].startswith(f"{incoming}/")
    assert [*incoming.iterdir(), *(state / "spool").iterdir()] == []


def _open_files(pid: int, size_bytes: int) -> list[str]:
    """Of a process, those that have grown that large; waits for the first."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = []
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                # what is still in Python's own buffer of the file does not count yet
                if link.is_file() and link.stat().st_size >= size_bytes - MIB:
                    found.append(os.readlink(link))
            except FileNotFoundError:
                continue  # closed meanwhile
        if found:
            return found
        time.sleep(0.02)
    return []


def test_requests_leave_no_connection_to_the_database_behind(owner: httpx.Client, installation: Installation):
    before = installation.connections()
    with ThreadPoolExecutor(8) as eight:
        answers = list(eight.map(lambda _: owner.get("/runs/").status_code, range(200)))
    assert answers == [200] * 200
    deadline = time.monotonic() + 10
    while installation.connections() > before:  # the last ones are just being closed
        assert time.monotonic() < deadline, f"{before} connections became {installation.connections()}"
        time.sleep(0.1)


def test_all_end_cleanly_when_they_are_told_to(installation: Installation):
    """The last test of this module: it ends what the others use."""
    codes = installation.stop()
    assert codes.pop("web") in (0, -15)  # uvicorn raises the signal again when all is closed
    assert codes == {"worker-cpu": 0, "dispatcher": 0}
