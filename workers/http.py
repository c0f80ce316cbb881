"""HTTP to the platform, with patience: what may pass by itself is tried again, what is an answer is told apart.

No token is ever logged: it travels in a header, only to the platform's own origin, and headers are never printed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any, Self, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx

API = "api/v1/"
CONNECT_S, ANSWER_S = 5.0, 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
CHUNK_BYTES = 1 << 20
FULL = 507  # Insufficient Storage: an answer; the same bytes again would find no more room
TOLD_CHARACTERS = 500

Answer = TypeVar("Answer")
GoOn = Callable[[], bool]


class ApiError(Exception):
    """A request that came to nothing."""


class Unreachable(ApiError):
    """No answer, or none but that the platform is not well, for as long as it was worth waiting."""


class Refused(ApiError):
    """The platform's answer is no. `id` is its error id, empty when the answer carries none."""

    def __init__(self, status: int, id: str, text: str) -> None:
        super().__init__(" ".join(part for part in (str(status), id, text) if part))
        self.status, self.id, self.text = status, id, text


class Http:
    """`address` is the site's or its API's. Safe to use from several threads; a context manager."""

    def __init__(self, address: str, token: str, *, answer_s: float = ANSWER_S) -> None:
        self.base = api_base(address)
        self._authorization = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(
            headers={"User-Agent": "fuseworks-worker", "Accept": "application/json"},
            timeout=httpx.Timeout(answer_s, connect=min(CONNECT_S, answer_s)),
            follow_redirects=False,
        )

    def send(
        self, method: str, path: str, *, go_on: GoOn, file: Callable[[], IO[bytes]] | None = None, **rest: Any
    ) -> Any:
        """The answer's JSON (None without one). `file` opens what is sent as the body, anew for each try.

        Raises Unreachable, Refused.
        """

        def attempt() -> Any:
            url, headers = self._addressed(path, rest.get("headers"))
            given = {**rest, "headers": headers}
            if file is None:
                response = self._client.request(method, url, **given)
            else:
                with file() as body:
                    response = self._client.request(method, url, content=body, **given)
            _check(response)
            return _json(response)

        return _patiently(attempt, f"{method} {path}", go_on)

    def download(self, path: str, receive: Callable[[httpx.Response], Answer], *, go_on: GoOn) -> Answer:
        """Hands the answer to `receive`, its body still to be read; anew for each try. Raises Unreachable, Refused."""

        def attempt() -> Answer:
            url, headers = self._addressed(path, None)
            with self._client.stream("GET", url, headers=headers) as response:
                if response.status_code >= 300:
                    response.read()
                _check(response)
                return receive(response)

        return _patiently(attempt, f"GET {path}", go_on)

    def _addressed(self, path: str, headers: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        """The token goes to the platform alone: a file may lie elsewhere, under an address that admits by itself."""
        url = urljoin(self.base, path)
        own = urlsplit(url)[:2] == urlsplit(self.base)[:2]
        return url, {**(headers or {}), **(self._authorization if own else {})}

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def api_base(address: str) -> str:
    """With one trailing slash, and the API's path where the site's address was given."""
    address = address.rstrip("/") + "/"
    return address if urlsplit(address).path.endswith(f"/{API}") else urljoin(address, API)


class _Unwell(Exception):
    """An answer of 500 and above (but FULL), one that asks to come back later, or one of somebody else."""


def _patiently(attempt: Callable[[], Answer], what: str, go_on: GoOn) -> Answer:
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return attempt()
        except (httpx.TransportError, _Unwell) as error:
            trouble = error
        if not go_on():
            raise Unreachable(f"{what}: {type(trouble).__name__} {trouble}") from trouble
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _check(response: httpx.Response) -> None:
    status = response.status_code
    if (status >= 500 and status != FULL) or status == 429:
        raise _Unwell(f"status {status}")
    if status >= 300:
        id_, text = _problem(response)
        raise Refused(status, id_, text[:TOLD_CHARACTERS])


def _json(response: httpx.Response) -> Any:
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError:
        raise _Unwell("an answer that is no JSON: is the platform behind this address?") from None


def _problem(response: httpx.Response) -> tuple[str, str]:
    """Id and text of a problem+json; of anything else its beginning."""
    try:
        document = response.json()
    except ValueError:
        return "", response.text
    if not isinstance(document, dict):
        return "", str(document)
    return str(document.get("id") or ""), str(document.get("detail") or document.get("title") or document)
