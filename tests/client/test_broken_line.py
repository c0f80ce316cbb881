"""What the command does when the line to the server breaks: it goes on where it was, or says so and ends with 3."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fuseworks.registry import incoming
from fuseworks.registry.models import ModelVersion, Upload
from fuseworks.runs.models import Artifact, Run
from fuseworks_client import uploads
from fuseworks_client.account import Account
from fuseworks_client.server import Server
from tests.client.conftest import Command
from tests.client.site import Site, Turn
from tests.client.wire import Wire
from tests.platform import factories

MIB = 1 << 20
ONNX = b"\x08" + bytes(range(256)) * (4 * MIB // 256)
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def wire(site: Site, fuseworks: Command) -> Iterator[Wire]:
    with Wire.strung(site.url) as wire:
        fuseworks.environment |= {"FUSEWORKS_URL": wire.url}
        yield wire


def test_an_upload_goes_on_where_the_connection_broke(site: Site, fuseworks: Command, wire: Wire):
    (fuseworks.folder / "m.onnx").write_bytes(ONNX)
    wire.tear_after(3 * MIB)
    done = fuseworks("submit", "m.onnx")
    assert done.returncode == 0, done.stderr
    assert ModelVersion.objects.get().sha256 == hashlib.sha256(ONNX).hexdigest()
    assert "does not answer" in done.stderr
    assert "Trying again for" in done.stderr
    assert len(ONNX) < wire.sent_bytes < len(ONNX) + MIB  # and not 3 MiB twice


def test_an_upload_whose_last_answer_was_lost_is_not_sent_again(site: Site, fuseworks: Command, wire: Wire):
    (fuseworks.folder / "m.onnx").write_bytes(ONNX)
    wire.lose_the_answer_after(len(ONNX))
    done = fuseworks("submit", "m.onnx")
    assert done.returncode == 0, done.stderr
    assert "Trying again for" in done.stderr
    assert ModelVersion.objects.get().number == 1
    assert wire.sent_bytes < len(ONNX) + MIB


def test_an_upload_that_came_whole_and_was_never_made_a_version_is_finished(site: Site, tmp_path: Path):
    """The server went down between the last byte and the version."""
    file = tmp_path / "m.onnx"
    file.write_bytes(ONNX)
    api = Server(Account(site.url, site.token), retry_s=5)
    begun = uploads.begin(api, file, uploads.sha256_of(file), {"team": site.team.slug, "model_name": "m"})
    incoming.path_of(Upload.objects.get(pk=begun["id"])).write_bytes(ONNX)
    version = uploads.send(api, begun, file, lambda done, total: None)
    assert str(ModelVersion.objects.get(sha256=hashlib.sha256(ONNX).hexdigest()).pk) == version


def test_a_run_whose_answer_was_lost_is_not_started_again(site: Site, wire: Wire):
    version = site.version(b"class Model: old\n")
    api = Server(Account(wire.url, site.token), retry_s=5)
    wire.lose_the_answer_after(1)
    run = api.post("runs/", {"version": str(version.pk)})
    assert wire.lost
    assert str(Run.objects.get().pk) == run["id"]
    again = api.post("runs/", {"version": str(version.pk)})  # another request has another key
    assert Run.objects.count() == 2
    assert again["id"] != run["id"]


def package_of(site: Site, fuseworks: Command) -> Artifact:
    def leaves_a_package(turn: Turn) -> None:
        turn.claim()
        turn.leave("package.zip", ONNX)
        turn.finish(factories.result_document())

    site.answers("optimize", leaves_a_package)
    assert fuseworks("submit", fuseworks.model("class Model: new\n"), "--wait").returncode == 0
    return Artifact.objects.get()


def test_a_download_that_broke_off_is_fetched_again(site: Site, fuseworks: Command, wire: Wire):
    artifact = package_of(site, fuseworks)
    wire.break_off_an_answer_after(2 * MIB)
    done = fuseworks("package", str(artifact.run_id))
    assert done.returncode == 0, done.stderr
    assert "Trying again for" in done.stderr
    assert (fuseworks.folder / "package.zip").read_bytes() == ONNX


def test_a_download_with_other_bytes_than_the_servers_is_not_kept(site: Site, fuseworks: Command):
    artifact = package_of(site, fuseworks)
    Artifact.objects.filter(pk=artifact.pk).update(sha256="0" * 64)
    done = fuseworks("package", str(artifact.run_id))
    assert done.returncode == 3
    assert "client:ours:digest" in done.stderr
    assert not list(fuseworks.folder.glob("package.zip*"))


def following(fuseworks: Command, **environment: str) -> subprocess.Popen[str]:
    """The command, once it shows what the run says."""
    process = fuseworks.start("submit", fuseworks.model("class Model: new\n"), "--wait", **environment)
    assert process.stderr is not None
    assert any("Building inductor" in line for line in iter(process.stderr.readline, ""))
    return process


def test_a_run_is_followed_over_a_restart_of_the_server(site: Site, fuseworks: Command, wire: Wire):
    is_away = threading.Event()

    def ends_meanwhile(turn: Turn) -> None:
        turn.claim()
        turn.say("Building inductor")
        assert is_away.wait(30)
        turn.finish(factories.result_document())

    site.answers("optimize", ends_meanwhile)
    with following(fuseworks, FUSEWORKS_RETRY_S="60") as process:
        wire.tear()
        assert wire.refused.wait(30)
        is_away.set()
        wire.mend()
        out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert f"{wire.url} does not answer" in error
    assert "Trying again for 60 s." in error
    assert "2.00x" in out


def test_a_server_that_stays_away_is_code_3_and_the_run_goes_on(site: Site, fuseworks: Command, wire: Wire):
    def works(turn: Turn) -> None:
        turn.claim()
        turn.say("Building inductor")

    site.answers("optimize", works)
    with following(fuseworks, FUSEWORKS_RETRY_S="0.6") as process:
        wire.tear()
        out, error = process.communicate(timeout=60)
    assert process.returncode == 3
    assert out == ""
    assert "client:ours:unreachable" in error
    assert "Check the address (`fuseworks login`), the network, and that the server is up." in error
    assert Run.objects.get(purpose="optimize").status == "running"


class Elsewhere(BaseHTTPRequestHandler):
    """A proxy's page, a redirect, or a server that is overloaded for one request."""

    seen: list[str] = []  # noqa: RUF012
    busy_for = 0

    def do_GET(self) -> None:
        self.seen.append(self.path)
        if self.path.startswith("/moved/"):
            self._answer(301, b"", ("Location", "https://fuseworks.example/"))
        elif self.path.startswith("/busy/") and len(self.seen) == 1:
            self._answer(503, b"later", ("Content-Type", "text/plain"))
        elif self.path.startswith(("/busy/", "/good/")):
            self._answer(200, b'{"results": [], "next": null}', ("Content-Type", "application/json"))
        else:
            self._answer(200, b"<html>Sign in first</html>", ("Content-Type", "text/html"))

    def _answer(self, status: int, body: bytes, header: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header(*header)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not on the test's stderr."""


@pytest.fixture
def elsewhere() -> Iterator[HTTPServer]:
    Elsewhere.seen = []
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(server: HTTPServer, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{server.server_address[1]}"


@pytest.mark.parametrize(
    ("path", "words"),
    [("", "answered something else than JSON"), ("/moved", "answered `go to https://fuseworks.example/`")],
)
def test_what_is_no_fuseworks_server_is_said_in_words(elsewhere: HTTPServer, fuseworks: Command, path: str, words: str):
    done = fuseworks("recipe", "list", FUSEWORKS_URL=f"{address(elsewhere)}{path}", FUSEWORKS_TOKEN="fw_1")
    assert done.returncode == 3
    assert words in " ".join(done.stderr.split())
    assert "Check the address" in done.stderr
    assert len(Elsewhere.seen) == 1  # no second try mends that


def test_an_overloaded_server_is_asked_again(elsewhere: HTTPServer, fuseworks: Command):
    done = fuseworks("recipe", "list", FUSEWORKS_URL=f"{address(elsewhere)}/busy", FUSEWORKS_TOKEN="fw_1")
    assert (done.returncode, done.stdout) == (0, "No recipe fits.\n")
    assert "HTTP 503" in done.stderr
    assert len(Elsewhere.seen) == 2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_a_certificate_of_an_authority_of_ones_own_has_to_be_named(elsewhere: HTTPServer, fuseworks: Command):
    subject = ["-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "own.pem",
        *subject,
    ]
    subprocess.run(made, cwd=fuseworks.folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(fuseworks.folder / "own.pem", fuseworks.folder / "key.pem")
    elsewhere.socket = context.wrap_socket(elsewhere.socket, server_side=True)
    fuseworks.environment |= {"FUSEWORKS_URL": f"{address(elsewhere, 'https')}/good", "FUSEWORKS_TOKEN": "fw_1"}
    done = fuseworks("recipe", "list")
    assert done.returncode == 3
    assert "is not trusted here" in done.stderr
    assert "SSL_CERT_FILE" in done.stderr
    assert "Trying again" not in done.stderr
    assert fuseworks("recipe", "list", SSL_CERT_FILE="own.pem").stdout == "No recipe fits.\n"
    absent = fuseworks("recipe", "list", SSL_CERT_FILE="absent.pem")
    assert (absent.returncode, "client:ours:files" in absent.stderr) == (3, True)


def test_a_time_to_retry_that_is_no_number_is_usage(fuseworks: Command):
    done = fuseworks("recipe", "list", FUSEWORKS_URL="http://a", FUSEWORKS_TOKEN="fw_1", FUSEWORKS_RETRY_S="long")
    assert done.returncode == 64
    assert "FUSEWORKS_RETRY_S is 'long', which is no number of seconds" in done.stderr
