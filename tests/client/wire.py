"""A wire between the command and the site that a test can break: after so many bytes, or until it is mended."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

BLOCK_BYTES = 1 << 14


class Wire:
    """Listens at `url` and passes everything on to the site. Connections beyond a break are closed unanswered."""

    def __init__(self, site: str) -> None:
        parts = urlsplit(site)
        self._site = (parts.hostname or "", parts.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent_bytes = 0  # by the command, in all
        self.refused = threading.Event()  # the command found it broken
        self.lost = False  # an answer of the site
        self._left_bytes: int | None = None
        self._lost_after: int | None = None
        self._answer_bytes: int | None = None
        self._is_broken = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    @classmethod
    @contextlib.contextmanager
    def strung(cls, site: str) -> Iterator[Wire]:
        wire = cls(site)
        threading.Thread(target=wire._accept, daemon=True).start()
        try:
            yield wire
        finally:
            wire._listener.close()
            wire.tear()

    def tear_after(self, count: int) -> None:
        """Once: when the command has sent so many more bytes, its connection breaks."""
        self._left_bytes = count

    def lose_the_answer_after(self, count: int) -> None:
        """Once: the site's next answer after so many bytes of the command is not passed on, its connection closed."""
        self._lost_after = self.sent_bytes + count

    def break_off_an_answer_after(self, count: int) -> None:
        """Once: when the site has answered so many more bytes, the connection breaks."""
        self._answer_bytes = count

    def tear(self) -> None:
        """Now and until it is mended."""
        self._is_broken = True
        with self._lock:
            for end in self._open:
                _close(end)

    def mend(self) -> None:
        self._is_broken = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: the test is over
            while True:
                near, _ = self._listener.accept()
                if self._is_broken:
                    near.close()
                    self.refused.set()
                    continue
                far = socket.create_connection(self._site)
                with self._lock:
                    self._open |= {near, far}
                threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, is_ours: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(BLOCK_BYTES):
                if not is_ours and self._lost_after is not None and self.sent_bytes >= self._lost_after:
                    self._lost_after, self.lost = None, True
                    break
                if not is_ours and self._answer_bytes is not None:
                    data = data[: self._answer_bytes]
                    self._answer_bytes -= len(data)
                if is_ours and self._left_bytes is not None:
                    data = data[: self._left_bytes]
                    self._left_bytes -= len(data)
                sink.sendall(data)
                self.sent_bytes += len(data) if is_ours else 0
                if is_ours and self._left_bytes == 0:
                    self._left_bytes = None
                    break
                if not is_ours and self._answer_bytes == 0:
                    self._answer_bytes = None
                    break
        with self._lock:
            for end in (source, sink):
                _close(end)
                self._open.discard(end)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
