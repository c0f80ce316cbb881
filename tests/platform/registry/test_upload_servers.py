"""Uploads over real connections, under a WSGI and an ASGI server: both hand the connection on to the view."""

from __future__ import annotations

import hashlib
import http.client
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from fuseworks.registry.models import ModelVersion
from tests.platform import factories
from tests.platform.registry.helpers import wait_for

MIB = 1 << 20
DATA = b"\x08" + bytes(range(256)) * (3 * MIB // 256)
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def token() -> str:
    team = factories.make_team("ads-ranking")
    return factories.make_token(factories.make_member(team), team)


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


@pytest.fixture(params=["wsgi", "asgi"])
def site(request: Any) -> str:
    """The address of the site under either server."""
    return str(
        request.getfixturevalue("live_server").url if request.param == "wsgi" else request.getfixturevalue("asgi")
    )


def test_what_came_before_the_client_went_is_kept(site: str, token: str, storage: Path) -> None:
    with _client(site, token) as client:
        path = _begin(client)
        connection = _half_sent(site, path, token, DATA[:MIB], len(DATA))
        wait_for(lambda: _part_size(storage) == MIB)
        # while that one is writing, another is kept out
        busy = client.patch(path, content=b"x", headers={"Upload-Offset": "0"})
        assert (busy.status_code, busy.json()["id"]) == (423, "registry:usage:busy")
        connection.close()
        wait_for(lambda: client.patch(path, content=b"", headers={"Upload-Offset": str(MIB)}).status_code != 423)
        assert _offset(client, path) == MIB
        done = client.patch(path, content=DATA[MIB:], headers={"Upload-Offset": str(MIB)})
        assert done.status_code == 200
    assert ModelVersion.objects.get().sha256 == hashlib.sha256(DATA).hexdigest()


def _part_size(storage: Path) -> int:
    return sum(path.stat().st_size for path in (storage / "incoming").glob("*.part"))


def test_too_much_is_refused_before_it_is_read(site: str, token: str) -> None:
    with _client(site, token) as client:
        path = _begin(client)
    parts = urlsplit(site)
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


def test_a_connection_serves_files_as_before_once_a_large_piece_came_over_it(asgi: str, token: str) -> None:
    parts = urlsplit(asgi)
    with _client(asgi, token) as client:
        path = _begin(client)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    connection.request("PATCH", path, DATA[:-1], {"Authorization": f"Bearer {token}", "Upload-Offset": "0"})
    assert connection.getresponse().read() == b""
    for _ in range(3):
        connection.request("GET", "/static/theme.js")
        answer = connection.getresponse()
        assert len(answer.read()) == int(answer.headers["Content-Length"]) > 0
    connection.close()


def test_the_last_piece_sent_again_is_answered_alike(site: str, token: str) -> None:
    with _client(site, token) as client:
        path = _begin(client)
        client.patch(path, content=DATA[:MIB], headers={"Upload-Offset": "0"})
        answers = [client.patch(path, content=DATA[MIB:], headers={"Upload-Offset": str(MIB)}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json()["version"] == answers[1].json()["version"]
        assert [answer.headers["Upload-Offset"] for answer in answers] == [str(len(DATA))] * 2
        # a piece of before, or one that goes past the end, is none of these
        assert client.patch(path, content=DATA[:MIB], headers={"Upload-Offset": "0"}).status_code == 410
    assert ModelVersion.objects.count() == 1


def test_a_form_with_a_large_file_passes_under_asgi(asgi: str) -> None:
    maintainer = factories.make_member(factories.make_team("search"), "maintainer")
    cookies = {"sessionid": factories.client_for(maintainer).cookies["sessionid"].value}
    with httpx.Client(base_url=asgi, cookies=cookies, timeout=30) as client:
        page = client.get("/uploads/new/").raise_for_status().text
        (key,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)) or {""}
        form = {"team": "search", "model_name": "DIN", "csrfmiddlewaretoken": key}
        sent = client.post("/uploads/new/", data=form, files={"file": ("m.onnx", DATA)})
    version = ModelVersion.objects.get()
    assert (sent.status_code, sent.headers["Location"]) == (302, f"/versions/{version.pk}/")
    assert version.sha256 == hashlib.sha256(DATA).hexdigest()
