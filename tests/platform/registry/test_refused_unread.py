"""Who may not upload, or not that much, is told so before his body is read: it reaches neither disk nor memory."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from django.utils import timezone

from fuseworks.accounts.models import Team
from fuseworks.registry import incoming
from fuseworks.registry.models import Upload
from tests.platform import factories
from tests.platform.registry.helpers import incoming_files

MIB, GIB = 1 << 20, 1 << 30
HUGE = GIB  # the site takes files of this size
PROMPTLY_S = 15.0
pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Answer:
    status: int
    problem: dict[str, Any]
    sent_bytes: int
    """of the body, when it came"""
    connection: socket.socket


class Sender:
    """Announces a body and sends a byte of it now and then, as long as there is no answer."""

    def __init__(self, address: str) -> None:
        self._parts = urlsplit(address)
        self._open: list[socket.socket] = []

    def __call__(self, method: str, path: str, length: int, **headers: str) -> Answer:
        connection = socket.create_connection((self._parts.hostname or "", self._parts.port or 0), timeout=0.05)
        self._open.append(connection)
        given = {"Host": "localhost", **headers}
        if "Transfer_Encoding" not in headers:
            given["Content-Length"] = str(length)
        lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in given.items())]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        received, sent, until = b"", 0, time.monotonic() + PROMPTLY_S
        while not _is_whole(received):
            assert time.monotonic() < until, f"no answer after {sent} bytes of the body, only {received!r}"
            if sent < length and "Expect" not in headers:
                connection.sendall(b"\x08")
                sent += 1
            with contextlib.suppress(TimeoutError):
                received += connection.recv(1 << 16)
        head, _, body = received.partition(b"\r\n\r\n")
        return Answer(int(head.split()[1]), json.loads(body), sent, connection)

    def close(self) -> None:
        for connection in self._open:
            connection.close()


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end) and len(body) >= int(lengths[0] if lengths else 0)


@pytest.fixture
def send(asgi: str) -> Iterator[Sender]:
    sender = Sender(asgi)
    yield sender
    sender.close()


@pytest.fixture
def spool(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where both Python and Django would put a body that they keep."""
    folder = tmp_path / "spool"
    folder.mkdir()
    settings.FILE_UPLOAD_TEMP_DIR = str(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def spooled(folder: Path) -> list[str]:
    """The open files of this process in the folder, those without a name, too."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(link))
    return [name for name in found if name.startswith(f"{folder}/")]


def nothing_is_kept(answer: Answer, spool: Path) -> None:
    """However much is still sent."""
    before_bytes = psutil.Process().memory_info().rss
    answer.connection.settimeout(10)
    with contextlib.suppress(OSError):  # the server may close as well
        for _ in range(64):
            answer.connection.sendall(bytes(MIB))
            assert spooled(spool) == []
    assert psutil.Process().memory_info().rss - before_bytes < 24 * MIB


def whole(team: str = "ads-ranking") -> tuple[str, str]:
    return "PUT", f"/api/v1/uploads/{team}/din/m.onnx"


def begun(team: Team) -> Upload:
    """One of which nothing has come yet."""
    upload = Upload.objects.create(
        team=team,
        model_name="DIN",
        filename="m.onnx",
        length_bytes=HUGE,
        expires_at=timezone.now() + timedelta(hours=1),
    )
    incoming.path_of(upload).touch()
    return upload


def token_of(who: str, team: Team) -> str | None:
    if who == "a stranger":
        return None
    if who == "a wrong token":
        return "fw_nobodys"
    if who == "a viewer":
        return factories.make_token(factories.make_member(team, "viewer"))
    if who == "a token that may only read":
        return factories.make_token(factories.make_member(team), scopes=("read",))
    return factories.make_token(factories.make_member(factories.make_team("search"), "owner"))


@pytest.mark.parametrize("address", ["the whole file", "a piece"])
@pytest.mark.parametrize(
    ("who", "status", "id_"),
    [
        ("a stranger", 401, "core:usage:unauthenticated"),
        ("a wrong token", 401, "accounts:usage:bad-token"),
        ("a viewer", 403, "core:usage:forbidden"),
        ("a token that may only read", 403, "core:usage:token-scope"),
        ("somebody of another team", 404, "core:usage:not-found"),
    ],
)
def test_who_may_not_is_told_so_while_he_is_still_sending(
    send: Sender, team: Team, storage: Path, spool: Path, who: str, status: int, id_: str, address: str
) -> None:
    upload = begun(team)
    token = token_of(who, team)
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    if address == "a piece":
        headers["Upload_Offset"] = "0"
    method, path = whole() if address == "the whole file" else ("PATCH", f"/api/v1/uploads/{upload.pk}/")
    answer = send(method, path, HUGE, **headers)
    assert (answer.status, answer.problem["id"]) == (status, id_)
    assert answer.problem["remedy"]
    assert answer.sent_bytes < MIB
    nothing_is_kept(answer, spool)
    assert [file.stat().st_size for file in incoming_files(storage)] == [0]


def test_who_asks_before_he_sends_is_refused_without_being_told_to_go_on(send: Sender, team: Team) -> None:
    """curl does so with large files: nothing of one goes over the line."""
    answer = send(*whole(), HUGE, Expect="100-continue")
    assert (answer.status, answer.sent_bytes) == (401, 0)


def test_a_file_over_the_limit_is_refused_by_its_announced_length(
    send: Sender, team: Team, storage: Path, spool: Path, settings: Any
) -> None:
    settings.MAX_UPLOAD_BYTES = 8 * MIB
    token = factories.make_token(factories.make_member(team))
    answer = send(*whole(), 8 * MIB + 1, Authorization=f"Bearer {token}")
    assert (answer.status, answer.problem["id"]) == (413, "registry:usage:too-large")
    assert answer.sent_bytes < MIB
    nothing_is_kept(answer, spool)
    assert not Upload.objects.exists()


def test_a_file_over_the_teams_quota_is_refused_by_its_announced_length(
    send: Sender, team: Team, storage: Path, spool: Path
) -> None:
    team.quota_bytes = 8 * MIB
    team.save()
    token = factories.make_token(factories.make_member(team))
    answer = send(*whole(), 8 * MIB + 1, Authorization=f"Bearer {token}")
    assert (answer.status, answer.problem["id"]) == (507, "registry:usage:quota")
    assert answer.sent_bytes < MIB
    nothing_is_kept(answer, spool)
    assert not Upload.objects.exists()


def test_a_piece_past_the_announced_end_is_refused(send: Sender, team: Team, storage: Path, spool: Path) -> None:
    upload = begun(team)
    token = factories.make_token(factories.make_member(team))
    headers = {"Authorization": f"Bearer {token}", "Upload_Offset": "0"}
    answer = send("PATCH", f"/api/v1/uploads/{upload.pk}/", HUGE + 1, **headers)
    assert (answer.status, answer.problem["id"]) == (413, "registry:usage:past-end")
    nothing_is_kept(answer, spool)
    assert [file.stat().st_size for file in incoming_files(storage)] == [0]


def test_a_body_of_no_announced_length_is_refused_before_it_comes(send: Sender, team: Team, spool: Path) -> None:
    token = factories.make_token(factories.make_member(team))
    answer = send(*whole(), 0, Authorization=f"Bearer {token}", Transfer_Encoding="chunked")
    assert (answer.status, answer.problem["id"]) == (411, "registry:usage:length-required")


@pytest.mark.parametrize("path", ["/api/v1/runs/", "/api/v1/worker/hello/"])
def test_a_stranger_is_refused_unread_elsewhere_too(send: Sender, spool: Path, path: str) -> None:
    answer = send("POST", path, HUGE, Content_Type="application/json")
    assert answer.status == 401
    nothing_is_kept(answer, spool)


def test_json_that_is_too_large_is_refused_by_its_first_bytes(send: Sender, team: Team, spool: Path) -> None:
    token = factories.make_token(factories.make_member(team))
    headers = {"Content_Type": "application/json", "Authorization": f"Bearer {token}"}
    answer = send("POST", "/api/v1/runs/", HUGE, **headers)
    assert (answer.status, answer.problem["id"]) == (413, "core:usage:body-too-large")
    nothing_is_kept(answer, spool)
