"""The ASGI handler: a body that is too large for memory goes to the view as it comes, and never to a file of its own.

Django's handler writes the whole body to a temporary file before anybody asks who sent it. Here a view that refuses (a
stranger, a role too small, a file too large) has answered by then; what still comes of the body, the server throws
away. A small body is read first, as Django does it. Not for async views: reading waits, which only a thread may.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler

from fuseworks.core.numbers import whole_number

Receive = Callable[[], Awaitable[Any]]
SILENCE_S = 60.0  # after which a sender counts as gone
LINE_BYTES = 4096


class Body:
    """A body on its way in, as a file that a view's thread reads. `whole` is set once all of it was taken in."""

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.whole = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        # What is received in a view's own context leaves that context to the connection's next request, whose answer
        # then asks a thread that is gone.
        self._context = contextvars.copy_context()
        self._left = bytearray()
        self._gone: OSError | None = None

    def read(self, size: int | None = -1) -> bytes:
        """Fewer bytes than `size` only at the end. Raises OSError when the sender is gone or says nothing more; what
        it sent before that is handed out first."""
        wanted = sys.maxsize if size is None or size < 0 else size
        while len(self._left) < wanted and not self.whole.is_set():
            try:
                self._left += self._next()
            except OSError as error:
                self._gone = error
                if not self._left:
                    raise
                break
        data = bytes(self._left[:wanted])
        del self._left[:wanted]
        return data

    def readline(self, size: int | None = -1) -> bytes:
        """Only to read on to the end, as Django does after a form: of a long line it is a part."""
        data = self.read(LINE_BYTES if size is None or size < 0 else min(size, LINE_BYTES))
        end = data.find(b"\n") + 1 or len(data)
        self._left[:0] = data[end:]
        return data[:end]

    def close(self) -> None:
        """What was not read is not kept anywhere."""

    def _next(self) -> bytes:
        if self._gone is not None:
            raise self._gone
        coming = self._context.run(asyncio.run_coroutine_threadsafe, self._receive(), self._loop)
        try:
            return coming.result(SILENCE_S)
        except TimeoutError:  # an OSError, too
            coming.cancel()
            raise
        except CancelledError as error:
            raise ConnectionAbortedError("the server is ending") from error

    async def _receive(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the sender is gone")
        if not message.get("more_body", False):
            self.whole.set()
        return bytes(message.get("body", b""))


class Handler(ASGIHandler):
    """Django's own passes `receive` to the two methods below and to nothing else: a Body may stand in its place."""

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        source: Any = receive if _fits_into_memory(scope) else Body(receive)
        await super().handle(scope, source, send)

    async def read_body(self, receive: Any) -> Any:
        return receive if isinstance(receive, Body) else await super().read_body(receive)

    async def listen_for_disconnect(self, receive: Any) -> None:
        if isinstance(receive, Body):
            # Not before: two who receive at once would each get a part of the body.
            await receive.whole.wait()
            receive = receive.receive
        await super().listen_for_disconnect(receive)


def _fits_into_memory(scope: Any) -> bool:
    headers = dict(scope["headers"])
    length = headers.get(b"content-length")
    if length is None:  # in pieces of unknown number; or, of what only asks, none
        return b"transfer-encoding" not in headers and scope["method"] in ("GET", "HEAD")
    length_bytes = whole_number(length)
    return length_bytes is not None and length_bytes <= settings.FILE_UPLOAD_MAX_MEMORY_SIZE
