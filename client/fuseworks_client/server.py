"""The server's API over HTTP: what this command needs of it, with errors as the server tells them.

A server that does not answer is asked again for a while: pipelines outlive its restarts. What starts something carries
a key by which the server knows a second try, so that nothing is started twice by that.
"""

from __future__ import annotations

import hashlib
import ssl
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import httpx

from fuseworks_client.account import Account

TIMEOUT_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
CHUNK_BYTES = 1 << 20
PASSING = frozenset({429, 502, 503, 504})


class ServerProblem(Exception):
    """An error that the server told (RFC 9457). `document` has id, message (`detail`), place and remedy."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status = status
        self.document = document
        super().__init__(f"{document.get('detail') or document.get('title') or 'refused'} (HTTP {status})")

    @property
    def problem(self) -> dict[str, Any]:
        """As `show_problem` takes it."""
        id_ = str(self.document.get("id") or f"server:ours:http-{self.status}")
        return {
            "id": id_,
            "side": id_.split(":")[1] if id_.count(":") == 2 else "ours",
            "message": self.document.get("detail") or self.document.get("title") or f"HTTP {self.status}",
            "place": self.document.get("place"),
            "remedy": self.document.get("remedy") or "",
        }


class Unreachable(Exception):
    """The server did not answer, after several tries."""

    def __init__(self, text: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(text)


class Server:
    """One server and one account.

    `retry_s`: how long it is asked again when it does not answer; `say` is told once when that begins.
    """

    def __init__(self, account: Account, *, retry_s: float = 0.0, say: Callable[[str], None] = lambda _: None) -> None:
        self.url = account.url
        self._retry_s, self._say = retry_s, say
        self._http = httpx.Client(
            base_url=f"{account.url}/api/v1/",
            headers={"Authorization": f"Bearer {account.token}", "Accept": "application/json"},
            timeout=TIMEOUT_S,
        )

    def get(self, path: str, **parameters: Any) -> Any:
        given = {k: v for k, v in parameters.items() if v is not None}
        return self._json(self.answer(lambda: self._http.get(path, params=given)))

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Every try has the same key: one that arrived although its answer did not is not done again."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return self._json(self.answer(lambda: self._http.post(path, json=body or {}, headers=headers)))

    def delete(self, path: str) -> None:
        self.answer(lambda: self._http.delete(path))

    def head(self, path: str) -> httpx.Response:
        return self.answer(lambda: self._http.head(path))

    def patch(self, path: str, content: Iterator[bytes], headers: dict[str, str]) -> httpx.Response:
        """Without tries of its own: whoever sends pieces knows what a second try must send."""
        return self._http.patch(path, content=content, headers=headers)

    def pages(self, path: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """All rows of a list."""
        number = 1
        while True:
            page = self.get(path, **parameters, page=number)
            yield from page["results"]
            if not page.get("next"):
                return
            number += 1

    def text(self, path: str) -> str:
        return self.answer(lambda: self._http.get(path, headers={"Accept": "*/*"})).text

    def download(self, path: str, to: Path, sha256: str) -> int:
        """Streamed into a file beside `to`, renamed when whole and right. Returns its size in bytes. Raises OSError."""
        partial = to.with_name(to.name + ".partial")
        found = hashlib.sha256()

        def fetch() -> httpx.Response:
            nonlocal found
            found = hashlib.sha256()
            with self._http.stream("GET", path, headers={"Accept": "*/*"}) as answer:
                if answer.status_code != 200:
                    answer.read()
                    return answer
                with partial.open("wb") as file:
                    for chunk in answer.iter_bytes(CHUNK_BYTES):
                        found.update(chunk)
                        file.write(chunk)
            return answer

        try:
            self.answer(fetch)
            if found.hexdigest() != sha256:
                raise ServerProblem(200, _wrong_bytes(to.name))
            size = partial.stat().st_size
            partial.replace(to)
        finally:
            partial.unlink(missing_ok=True)
        return size

    def answer(self, send: Callable[[], httpx.Response], *, again_for: Collection[str] = ()) -> httpx.Response:
        """Raises ServerProblem, Unreachable. Broken connections and 429, 502 to 504 are tried again, after pauses.

        `again_for`: ids of problems for which a further try helps.
        """
        deadline, pause_s, said = time.monotonic() + self._retry_s, FIRST_PAUSE_S, False
        while True:
            trouble: ServerProblem | Unreachable
            try:
                answer = send()
            except httpx.TransportError as error:
                trouble, again = self._unreachable(error), _may_heal(error)
            else:
                if answer.status_code < 300:
                    return answer
                trouble = self._problem(answer)
                again = answer.status_code in PASSING or trouble.problem["id"] in again_for
            left_s = deadline - time.monotonic()
            if not again or left_s <= 0:
                raise trouble
            if not said:
                self._say(f"{trouble}. Trying again for {left_s:.0f} s.")
                said = True
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _json(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError:
            raise ServerProblem(answer.status_code, self._stranger("something else than JSON")) from None

    def _problem(self, answer: httpx.Response) -> ServerProblem:
        if answer.is_redirect:
            return ServerProblem(
                answer.status_code, self._stranger(f"`go to {answer.headers.get('Location', 'nowhere')}`")
            )
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict) or "id" not in document:
            document = self._stranger(f"HTTP {answer.status_code} without a reason")
        return ServerProblem(answer.status_code, document)

    def _stranger(self, what: str) -> dict[str, Any]:
        return {
            "id": "client:ours:not-fuseworks",
            "detail": f"{self.url} answered {what}: no Fuseworks server, or a proxy before it",
            "remedy": "Check the address: it is that of the start page, as a browser shows it.",
        }

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        if _is_about_trust(error):
            remedy = "Name the file of your own authority's certificate in SSL_CERT_FILE."
            return Unreachable(f"the certificate of {self.url} is not trusted here: {error}", remedy)
        remedy = "Check the address (`fuseworks login`), the network, and that the server is up."
        return Unreachable(f"{self.url} does not answer: {error or type(error).__name__}", remedy)


def _may_heal(error: httpx.TransportError) -> bool:
    return not (_is_about_trust(error) or isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)))


def _is_about_trust(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _wrong_bytes(name: str) -> dict[str, Any]:
    return {
        "id": "client:ours:digest",
        "detail": f"{name} did not arrive as the server keeps it: its SHA-256 differs",
        "remedy": "Try it again; a proxy on the way may change what it passes on.",
    }
