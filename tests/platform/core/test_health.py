"""The health page and its checks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client, override_settings

import fuseworks
from fuseworks.core import health
from fuseworks.core.health import Unhealthy, examine


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
    assert {check["name"] for check in document["checks"]} == {"disk", "services", "templates"}
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
    assert f"broker does not answer at 127.0.0.1:{closed_port}" in check["detail"]
    assert "Something is wrong" in page.content.decode()


@pytest.mark.parametrize("service", ["database", "=localhost:5432", "database=localhost", "database=localhost:port"])
def test_a_service_that_is_misspelt_is_unhealthy_and_not_ignored(service: str) -> None:
    with override_settings(HEALTH_SERVICES=[service]):
        (check,) = [c for c in examine() if not c.ok]
    assert service in check.detail


def test_too_little_disk_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 300 << 20})
    monkeypatch.setattr(health.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(Unhealthy) as caught:
        health.disk()
    assert "only 300 MiB are free" in str(caught.value)


def test_two_checks_of_one_name_stop_start_up() -> None:
    def disk() -> str:
        return ""

    with pytest.raises(RuntimeError) as caught:
        health.health_check(disk)
    assert "'disk'" in str(caught.value)
