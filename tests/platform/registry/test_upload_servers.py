"""Uploads over real connections: a WSGI server that hands the connection on, and an ASGI server that spools first."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from django.core.asgi import get_asgi_application
from django.db import connections

from fuseworks.registry.models import ModelVersion, Upload
from tests.platform import factories

MIB = 1 << 20
DATA = b"\x08" + bytes(range(256)) * (3 * MIB // 256)
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def token() -> str:
    team = factories.make_team("ads-ranking")
    return factories.make_token(factories.make_member(team), team)


@pytest.fixture
def asgi(token: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The site under uvicorn, as it is served."""
    # its threads must not keep connections to a database that the tests drop
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(get_asgi_application(), host="127.0.0.1", port=port, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    _wait_for(lambda: server.started)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


def _wait_for(condition: Any, within_s: float = 10) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def _client(base: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=30)


def _begin(client: httpx.Client) -> str:
    body = {"team": "ads-ranking", "model_name": "DIN", "filename": "m.onnx", "length_bytes": len(DATA)}
    address = client.post("/api/v1/uploads/", json=body).raise_for_status().json()["address"]
    return urlsplit(address).path


def _offset(client: httpx.Client, path: str) -> int:
    return int(client.head(path).raise_for_status().headers["Upload-Offset"])


def _half_sent(base: str, path: str, token: str, data: bytes, announced_bytes: int) -> socket.socket:
    parts = urlsplit(base)
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10)
    head = (
        f"PATCH {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Upload-Offset: 0\r\nContent-Length: {announced_bytes}\r\n\r\n"
    )
    connection.sendall(head.encode() + data)
    return connection


def test_under_wsgi_what_came_before_the_client_went_is_kept(live_server: Any, token: str, storage: Path) -> None:
    with _client(live_server.url, token) as client:
        path = _begin(client)
        connection = _half_sent(live_server.url, path, token, DATA[:MIB], len(DATA))
        _wait_for(lambda: _part_size(storage) == MIB)
        # while that one is writing, another is kept out
        busy = client.patch(path, content=b"x", headers={"Upload-Offset": "0"})
        assert (busy.status_code, busy.json()["id"]) == (423, "registry:usage:busy")
        connection.close()
        _wait_for(lambda: client.patch(path, content=b"", headers={"Upload-Offset": str(MIB)}).status_code != 423)
        assert _offset(client, path) == MIB
        done = client.patch(path, content=DATA[MIB:], headers={"Upload-Offset": str(MIB)})
        assert done.status_code == 200
    assert ModelVersion.objects.get().sha256 == hashlib.sha256(DATA).hexdigest()


def _part_size(storage: Path) -> int:
    return sum(path.stat().st_size for path in (storage / "incoming").glob("*.part"))


def test_under_wsgi_too_much_is_refused_before_it_is_read(live_server: Any, token: str) -> None:
    with _client(live_server.url, token) as client:
        path = _begin(client)
    parts = urlsplit(live_server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.putrequest("PATCH", path)
    connection.putheader("Authorization", f"Bearer {token}")
    connection.putheader("Upload-Offset", "0")
    connection.putheader("Content-Length", str(len(DATA) + 1))
    connection.endheaders()
    # not one byte of the body was sent, and the answer is there
    assert connection.getresponse().status == 413
    connection.close()


def test_under_asgi_pieces_and_the_download_pass(asgi: str, token: str) -> None:
    with _client(asgi, token) as client:
        path = _begin(client)
        first = client.patch(path, content=DATA[:MIB], headers={"Upload-Offset": "0"})
        assert (first.status_code, first.headers["Upload-Offset"]) == (204, str(MIB))
        assert _offset(client, path) == MIB
        done = client.patch(path, content=DATA[MIB:], headers={"Upload-Offset": str(MIB)})
        version = done.raise_for_status().json()["version"]
        with client.stream("GET", f"/api/v1/versions/{version}/file/") as response:
            assert response.headers["Content-Disposition"] == 'attachment; filename="m.onnx"'
            assert response.headers["Content-Length"] == str(len(DATA))
            received = response.read()
    assert hashlib.sha256(received).hexdigest() == hashlib.sha256(DATA).hexdigest()


def test_under_asgi_a_piece_that_breaks_off_is_lost_and_the_ones_before_it_are_kept(asgi: str, token: str) -> None:
    with _client(asgi, token) as client:
        path = _begin(client)
        client.patch(path, content=DATA[:MIB], headers={"Upload-Offset": "0"})
        _half_sent(asgi, path, token, DATA[:1000], len(DATA)).close()
        assert _offset(client, path) == MIB
        put = client.put("/api/v1/uploads/ads-ranking/other/m.onnx", content=DATA)
        assert put.status_code == 201
    assert Upload.objects.filter(version=None).count() == 1
