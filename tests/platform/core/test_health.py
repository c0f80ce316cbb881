"""The health page and its checks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import OperationalError, connection
from django.test import Client, override_settings

import fuseworks
from fuseworks.core import health, storage
from fuseworks.core.health import Degraded, examine
from fuseworks.fleet.leadership import LOCK
from fuseworks.settings import environment
from tests.platform.runs.steps import queued, worker_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def listening() -> Iterator[int]:
    """The port of a server that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_program_gets_json_with_the_version_the_time_and_each_check(client: Client) -> None:
    answer = client.get("/health/", headers={"accept": "application/json"})
    document = answer.json()
    assert answer.status_code == 200
    assert document["status"] == "ok"
    assert document["version"] == fuseworks.__version__
    assert abs(datetime.fromisoformat(document["time"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert {check["name"] for check in document["checks"]} == {
        "broker",
        "database",
        "disk",
        "dispatcher",
        "services",
        "templates",
        "workers",
    }
    assert all(check["ok"] for check in document["checks"])


def test_a_browser_gets_a_page(client: Client) -> None:
    answer = client.get("/health/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert answer["Content-Type"].startswith("text/html")
    assert "All is well" in answer.content.decode()


@pytest.mark.parametrize(("query", "kind"), [("json", "application/json"), ("html", "text/html")])
def test_the_address_can_choose_the_format(client: Client, query: str, kind: str) -> None:
    assert client.get(f"/health/?format={query}")["Content-Type"].startswith(kind)


def test_the_answer_is_never_cached(client: Client) -> None:
    assert "no-store" in client.get("/health/")["Cache-Control"]


def test_it_is_only_read(client: Client) -> None:
    assert client.post("/health/").status_code == 405


def test_a_configured_service_that_answers_is_named(client: Client, listening: int) -> None:
    with override_settings(HEALTH_SERVICES=[f"database=127.0.0.1:{listening}"]):
        document = client.get("/health/?format=json").json()
    assert {c["name"]: c["detail"] for c in document["checks"]}["services"] == "reachable: database"


def test_a_service_that_does_not_answer_makes_the_site_unhealthy_and_says_which(
    client: Client, listening: int, closed_port: int
) -> None:
    services = [f"database=127.0.0.1:{listening}", f"broker=127.0.0.1:{closed_port}"]
    with override_settings(HEALTH_SERVICES=services):
        answer = client.get("/health/?format=json")
        page = client.get("/health/?format=html")
    (check,) = [c for c in answer.json()["checks"] if not c["ok"]]
    assert answer.status_code == page.status_code == 503
    assert answer.json()["status"] == "unhealthy"
    assert check["detail"] == "broker does not answer"
    assert str(closed_port) not in answer.content.decode() + page.content.decode()
    assert "Something is wrong" in page.content.decode()


@pytest.mark.parametrize("service", ["database", "=localhost:5432", "database=localhost", "database=localhost:port"])
def test_a_service_that_is_misspelt_is_unhealthy_and_only_the_log_says_which(
    service: str, caplog: pytest.LogCaptureFixture
) -> None:
    with override_settings(HEALTH_SERVICES=[service]):
        (check,) = [c for c in examine() if not c.ok]
    assert "FUSEWORKS_HEALTH_SERVICES is misspelt" in check.detail
    assert service not in check.detail
    assert repr(service) in caplog.text


def test_a_database_that_does_not_answer_makes_the_site_unhealthy_and_tells_strangers_no_address(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OperationalError("no server at 10.0.0.7")

    monkeypatch.setattr(connection, "cursor", refuse)
    answer = client.get("/health/?format=json")
    page = client.get("/health/?format=html")
    (check,) = [c for c in answer.json()["checks"] if not c["ok"]]
    assert (answer.status_code, page.status_code) == (503, 503)
    assert (check["name"], check["detail"]) == ("database", "the database does not answer")
    assert "10.0.0.7" not in answer.content.decode() + page.content.decode()


def test_a_broker_that_does_not_answer_is_named_and_pages_go_on_working(client: Client, closed_port: int) -> None:
    with override_settings(REDIS_URL=f"redis://127.0.0.1:{closed_port}/0"):
        answer = client.get("/health/?format=json")
        page = client.get("/health/?format=html")
    (check,) = [c for c in answer.json()["checks"] if not c["ok"]]
    assert (check["name"], check["serves"]) == ("broker", True)
    assert "the broker does not answer" in check["detail"]
    assert (answer.status_code, answer.json()["status"], page.status_code) == (200, "degraded", 200)
    assert "Pages work, but something is wrong" in page.content.decode()


@pytest.mark.parametrize("setting", ["REDIS_URL", "HEALTH_SERVICES"])
def test_a_server_that_accepts_and_never_answers_is_not_waited_for(setting: str, listening: int) -> None:
    value: object = f"redis://127.0.0.1:{listening}/0"
    if setting == "HEALTH_SERVICES":
        value = [f"far=198.51.100.1:{listening}"]  # an address of documents: nothing answers there
    with override_settings(**{setting: value}):
        (check,) = [c for c in examine() if not c.ok]
    assert check.seconds < 3


def test_a_database_that_is_gone_is_waited_for_three_seconds_unless_its_address_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_DATABASE", "postgresql://user@database/name")
    assert environment.database("A_DATABASE")["OPTIONS"] == {"connect_timeout": 3}
    monkeypatch.setenv("A_DATABASE", "postgresql://user@database/name?connect_timeout=7")
    assert environment.database("A_DATABASE")["OPTIONS"] == {"connect_timeout": "7"}


def test_a_site_without_a_broker_says_so() -> None:
    with override_settings(REDIS_URL=""):
        (check,) = [c for c in examine() if not c.ok]
    assert "REDIS_URL" in check.detail


def test_too_little_disk_is_told_and_ends_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 300 << 20})
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(Degraded) as caught:
        health.disk()
    assert "only 300 MiB are free" in str(caught.value)


def test_the_disk_is_that_of_the_files_even_before_their_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    usage = type("Usage", (), {"free": 5 << 30})
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda path: asked.append(path) or usage)
    with override_settings(STORAGE=tmp_path / "not" / "yet"):
        assert health.disk() == "5 GiB free"
    assert asked == [tmp_path]


def test_that_no_dispatcher_is_at_work_is_told_and_ends_no_site() -> None:
    (check,) = [c for c in examine() if c.name == "dispatcher"]
    assert check.ok
    assert check.detail == "none is at work: runs stay in the queue until one starts"


def test_a_dispatcher_at_work_is_seen() -> None:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        assert health.dispatcher() == "at work"
    finally:
        other.close()


def test_a_target_with_runs_and_no_living_worker_is_named_and_pages_go_on_working(client: Client) -> None:
    worker_row("host cpu", seen=datetime.now(UTC))
    worker_row("dead", target="cuda:sm_90", seen=datetime.now(UTC) - timedelta(days=1))
    queued()
    for _ in range(2):
        queued(target="cuda:sm_90")
    answer = client.get("/health/?format=json")
    (check,) = [c for c in answer.json()["checks"] if not c["ok"]]
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert (check["name"], check["serves"]) == ("workers", True)
    assert check["detail"] == "runs wait and no worker is alive for cuda:sm_90 (2 waiting)"


def test_living_workers_are_counted_by_target_and_none_is_missed_while_nothing_waits() -> None:
    assert health.workers() == "none is alive, and nothing waits for one"
    worker_row("a", seen=datetime.now(UTC))
    worker_row("b", seen=datetime.now(UTC))
    queued()
    assert health.workers() == "alive: cpu: 2"


def test_two_checks_of_one_name_stop_start_up() -> None:
    def disk() -> str:
        return ""

    with pytest.raises(RuntimeError) as caught:
        health.health_check(disk)
    assert "'disk'" in str(caught.value)
