"""Patience: what passes by itself is tried again, an answer is an answer, and the token goes to the platform alone."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from workers.http import Http, Refused, Unreachable, api_base

Answers = list[tuple[int, bytes]]


class Server:
    """Gives one answer after the other, the last one for ever; notes what it was asked."""

    def __init__(self) -> None:
        self.answers: Answers = [(200, b"{}")]
        self.asked: list[tuple[str, str | None, bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Quiet."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append((self.path, self.headers.get("Authorization"), body))
                status, data = outer.answers[0]
                if len(outer.answers) > 1:
                    outer.answers.pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.05], daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


def times(count: int) -> Callable[[], bool]:
    left = iter([True] * count)
    return lambda: next(left, False)


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://site", "http://site/api/v1/"),
        ("http://site/", "http://site/api/v1/"),
        ("https://site/fuseworks", "https://site/fuseworks/api/v1/"),
        ("http://site/api/v1", "http://site/api/v1/"),
        ("http://site/api/v1/", "http://site/api/v1/"),
    ],
)
def test_the_sites_address_and_its_apis_are_both_understood(given: str, base: str) -> None:
    assert api_base(given) == base


def test_an_answer_is_returned_and_the_token_sent(server: Server) -> None:
    server.answers = [(200, b'{"next": 4}')]
    with Http(server.address, "secret") as http:
        assert http.send("POST", "worker/x/", go_on=times(0), json={"a": 1}) == {"next": 4}
    assert server.asked == [("/api/v1/worker/x/", "Bearer secret", b'{"a":1}')]


def test_an_empty_answer_is_none(server: Server) -> None:
    server.answers = [(204, b"")]
    with Http(server.address, "secret") as http:
        assert http.send("POST", "x/", go_on=times(0)) is None


@pytest.mark.parametrize("trouble", [(500, b""), (503, b"resting"), (429, b""), (200, b"<html>a proxy</html>")])
def test_trouble_is_tried_again_with_the_whole_body(server: Server, trouble: tuple[int, bytes]) -> None:
    server.answers = [trouble, trouble, (200, b"{}")]
    with Http(server.address, "secret") as http:
        assert http.send("PUT", "x/", go_on=times(2), file=lambda: io.BytesIO(b"body")) == {}
    assert [body for _, _, body in server.asked] == [b"body"] * 3


def test_trouble_that_stays_is_unreachable(server: Server) -> None:
    server.answers = [(502, b"")]
    with Http(server.address, "secret") as http, pytest.raises(Unreachable, match=r"POST x/: .*502"):
        http.send("POST", "x/", go_on=times(2))
    assert len(server.asked) == 3


def test_nobody_there_is_unreachable() -> None:
    with Http("http://127.0.0.1:9", "secret") as http, pytest.raises(Unreachable, match="ConnectError"):
        http.send("POST", "x/", go_on=times(1))


@pytest.mark.parametrize("status", [301, 400, 404, 409, 422, 507])
def test_a_refusal_is_not_tried_again(server: Server, status: int) -> None:
    server.answers = [(status, b'{"id": "runs:usage:stale", "detail": "over"}')]
    with Http(server.address, "secret") as http, pytest.raises(Refused) as caught:
        http.send("POST", "x/", go_on=lambda: True)
    assert (caught.value.status, caught.value.id, caught.value.text) == (status, "runs:usage:stale", "over")
    assert len(server.asked) == 1


def test_a_refusal_that_is_no_problem_document_is_quoted(server: Server) -> None:
    server.answers = [(413, b"<h1>413 Too Large</h1>")]
    with Http(server.address, "secret") as http, pytest.raises(Refused, match="413 <h1>413 Too Large</h1>"):
        http.send("POST", "x/", go_on=lambda: True)


def test_a_file_elsewhere_is_fetched_without_the_token(server: Server) -> None:
    server.answers = [(200, b"bytes")]
    with Http("http://127.0.0.1:9", "secret") as http:
        got = http.download(f"{server.address}/bucket/key?signature=1", lambda r: r.read(), go_on=times(0))
    assert got == b"bytes"
    assert server.asked == [("/bucket/key?signature=1", None, b"")]


def test_a_download_that_breaks_off_begins_anew(server: Server) -> None:
    server.answers = [(503, b""), (200, b"bytes")]
    seen: list[bytes] = []
    with Http(server.address, "secret") as http:
        http.download("f/", lambda r: seen.append(r.read()), go_on=times(1))
    assert seen == [b"bytes"]
