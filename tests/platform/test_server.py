"""The site as `make site` starts it: uvicorn on a free port of this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
START_S = 30.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [sys.executable, "-m", "uvicorn", "fuseworks.asgi:application", "--no-server-header"]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "fuseworks.settings.testing",
        "PYTHONPATH": str(ROOT / "platform"),
    }
    with open(log, "wb") as output:
        server = subprocess.Popen([*command, "--port", str(port)], env=environment, stdout=output, stderr=output)
    try:
        wait_for(port, server, log)
        yield f"http://127.0.0.1:{port}"
        assert "Warning" not in log.read_text()
    finally:
        server.terminate()
        server.wait(START_S)


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the server did not start:\n{log.read_text()}")


def get(url: str, accept: str = "*/*") -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def test_it_answers_whether_it_is_well(address: str) -> None:
    status, _, body = get(f"{address}/health/", "application/json")
    assert status == 200
    assert json.loads(body)["status"] == "ok"


def test_it_serves_its_static_files_whole(address: str) -> None:
    status, headers, body = get(f"{address}/static/theme.js")
    assert (status, headers["Content-Type"].split(";")[0]) == (200, "text/javascript")
    assert body == (ROOT / "frontend" / "static" / "theme.js").read_bytes()


def test_it_does_not_say_what_serves_it(address: str) -> None:
    assert "server" not in {name.lower() for name in get(f"{address}/")[1]}


@pytest.mark.parametrize("path", ["/static/../templates/base.html", "/static/%2e%2e/templates/base.html", "/nowhere/"])
def test_nothing_beyond_its_pages_can_be_read(address: str, path: str) -> None:
    status, _, body = get(f"{address}{path}")
    assert status == 404
    assert b"load static" not in body


def test_a_strangers_host_name_is_refused(address: str) -> None:
    request = urllib.request.Request(f"{address}/", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    caught.value.close()
    assert caught.value.code == 400
