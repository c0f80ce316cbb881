"""The proxy's own file in a real nginx, with ports of the test, in front of a server that counts bytes."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from fuseworks.core.errors import PlatformError
from fuseworks.core.problems import problem
from fuseworks.embedded.children import await_ready, end, spawn
from fuseworks.embedded.valkey import free_port
from tests.deploy.compose import ROOT

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
MIB = 1 << 20
pytestmark = pytest.mark.skipif(NGINX is None, reason="needs nginx (apt install nginx-light)")


class Counting(BaseHTTPRequestHandler):
    """Answers the number of bytes that came, and what the proxy told of the request."""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("X-Told", f"{self.headers['X-Forwarded-Proto']} {self.headers['Host']} {self.path}")
        said = str(len(body)).encode()
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    LARGE_BYTES = 128 * MIB
    sent_bytes = 0

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(self.LARGE_BYTES))
        self.end_headers()
        for _ in range(self.LARGE_BYTES // MIB):
            self.wfile.write(bytes(MIB))
            Counting.sent_bytes += MIB

    def log_message(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class Proxy:
    plain: str
    tls: str


def configuration(folder: Path, changes: dict[str, str]) -> Path:
    tls = folder / "tls"
    tls.mkdir()
    subject = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=fuseworks.example"]
    files = ["-keyout", str(tls / "privkey.pem"), "-out", str(tls / "fullchain.pem")]
    subprocess.run(["openssl", *subject, *files], check=True, capture_output=True)
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for old, new in {**changes, "/etc/nginx/tls": str(tls)}.items():
        assert old in text
        text = text.replace(old, new)
    here = folder / "nginx.conf"
    here.write_text(text)
    return here


def test_the_configuration_is_valid_before_the_site_can_be_found(tmp_path: Path):
    assert NGINX is not None
    here = configuration(tmp_path, {"/tmp/nginx.pid": str(tmp_path / "pid")})
    answer = subprocess.run([NGINX, "-t", "-c", str(here), "-e", "stderr"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with started(tmp_path_factory.mktemp("proxy"), f"http://127.0.0.1:{server.server_port}") as proxy:
                yield proxy
        finally:
            server.shutdown()


@contextmanager
def started(folder: Path, site: str) -> Iterator[Proxy]:
    """In front of `site`."""
    assert NGINX is not None
    plain, tls = free_port(), free_port()
    changes = {
        "http://web:8000": site,
        "listen 8080": f"listen 127.0.0.1:{plain}",
        "listen 8443": f"listen 127.0.0.1:{tls}",
        "/tmp/": f"{folder}/",
        "access_log /dev/stdout": "access_log off",
        "error_log /dev/stderr": f"error_log {folder}/errors.log",
        "worker_processes auto": f"{'user root;' * (folder.stat().st_uid == 0)} worker_processes 1",
    }
    here, log = configuration(folder, changes), folder / "log"
    process = spawn([NGINX, "-c", here, "-e", folder / "errors.log", "-g", "daemon off;"], log=log)
    try:
        await_ready("nginx", process, lambda: _listens(tls), log=log, timeout_s=20)
        yield Proxy(f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{tls}")
    finally:
        end(process)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def put(proxy: Proxy, path: str, size_bytes: int) -> httpx.Response:
    headers = {"Host": "fuseworks.example"}
    return httpx.put(proxy.tls + path, content=bytes(size_bytes), headers=headers, verify=False, timeout=30)


def test_plain_http_is_sent_to_https(proxy: Proxy):
    answer = httpx.get(f"{proxy.plain}/runs/?page=2", headers={"Host": "fuseworks.example"})
    assert (answer.status_code, answer.headers["Location"]) == (301, "https://fuseworks.example/runs/?page=2")


@pytest.mark.parametrize("path", ["/api/v1/uploads/ads/din/m.onnx?sha256=0", "/uploads/new/", "/api/v1/worker/runs/1/"])
def test_large_bodies_pass_where_files_come_in(proxy: Proxy, path: str):
    answer = put(proxy, path, 5 * MIB)
    assert (answer.status_code, answer.text) == (200, str(5 * MIB))
    assert answer.headers["X-Told"] == f"https fuseworks.example {path}"


GIB = 1 << 30


@pytest.mark.parametrize(
    ("path", "setting"),
    [("/api/v1/uploads/x", "MAX_UPLOAD_BYTES"), ("/api/v1/worker/runs/1/artifacts/x/", "MAX_ARTIFACT_BYTES")],
)
def test_the_proxy_takes_what_the_site_takes_and_no_more(proxy: Proxy, path: str, setting: str, settings: Any):
    """Asked with `Expect: 100-continue`, before a byte of the body is sent."""
    largest = getattr(settings, setting)
    assert largest % GIB == 0
    assert _told(proxy, path, largest) == 100
    assert _told(proxy, path, largest + 1) == 413


def _told(proxy: Proxy, path: str, size_bytes: int) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = proxy.tls.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as plain, context.wrap_socket(plain) as line:
        head = f"PUT {path} HTTP/1.1\r\nHost: fuseworks.example\r\nContent-Length: {size_bytes}\r\n"
        line.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        return int(line.recv(4096).split()[1])


def test_a_download_waits_for_its_reader_in_the_site_and_not_in_the_proxys_memory(proxy: Proxy):
    """What the reader does not take, the site must not have handed over: /tmp of the proxy is memory."""
    Counting.sent_bytes = 0
    with (
        httpx.Client(verify=False, timeout=30) as client,
        client.stream("GET", f"{proxy.tls}/api/v1/runs/1/artifacts/package.zip/") as answer,
    ):
        assert answer.status_code == 200
        before = -1
        while Counting.sent_bytes != before:  # until the site has to wait
            before = Counting.sent_bytes
            time.sleep(0.5)
        assert 0 < before < Counting.LARGE_BYTES // 2
        assert sum(len(block) for block in answer.iter_raw()) == Counting.LARGE_BYTES


@pytest.mark.parametrize("path", ["/", "/sign-in/", "/api/v1/runs/", "/uploads/new/other/", "/x/api/v1/uploads/"])
def test_large_bodies_are_refused_elsewhere_and_small_ones_pass(proxy: Proxy, path: str):
    assert put(proxy, path, 5 * MIB).status_code == 413
    assert put(proxy, path, MIB).text == str(MIB)


def test_an_apis_client_is_told_in_the_sites_form_and_a_reader_of_pages_is_not(proxy: Proxy):
    told = put(proxy, "/api/v1/runs/", 5 * MIB)
    assert told.headers["Content-Type"] == "application/problem+json"
    assert (told.status_code, told.json()["status"], told.json()["id"]) == (413, 413, "proxy:user:too-large")
    assert told.json().keys() == problem(PlatformError("core:usage:not-found", what="run"), 404).keys()
    assert put(proxy, "/", 5 * MIB).headers["Content-Type"] == "text/html"


def test_whoever_guesses_at_sign_in_is_told_to_slow_down(proxy: Proxy):
    answers = [put(proxy, "/sign-in/", 1).status_code for _ in range(40)]
    assert answers[0] == 200 and set(answers) == {200, 429}


def test_a_site_that_is_away_is_told_in_the_sites_form(tmp_path: Path):
    with started(tmp_path, f"http://127.0.0.1:{free_port()}") as proxy:
        told = httpx.get(proxy.tls + "/api/v1/runs/", headers={"Host": "fuseworks.example"}, verify=False)
        page = httpx.get(proxy.tls + "/runs/", headers={"Host": "fuseworks.example"}, verify=False)
    assert (told.status_code, told.json()["status"], told.json()["id"]) == (503, 503, "proxy:ours:no-site")
    assert (page.status_code, page.headers["Content-Type"]) == (503, "text/html")
