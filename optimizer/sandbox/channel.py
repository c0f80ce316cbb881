"""The coordinator's end of the wire: every read and write has a deadline, also in the middle of a frame.

The child is hostile here. What is not a frame within the limits raises ProtocolError; nothing is ever unpickled.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from optimizer.children import wire
from optimizer.children.wire import ProtocolError

__all__ = ["Channel", "ChildGone", "DeadlinePassed", "ProtocolError"]

CHUNK = 1 << 20


class DeadlinePassed(Exception):
    """The child did not take or send all bytes in time."""


class ChildGone(Exception):
    """The child ended or closed the wire."""


class Channel:
    """`process_fd` (a pidfd) tells the child's end even while a descendant of it keeps the wire open."""

    def __init__(self, sock: socket.socket, process_fd: int) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._reading, self._writing = select.poll(), select.poll()
        for poll, event in ((self._reading, select.POLLIN), (self._writing, select.POLLOUT)):
            poll.register(sock, event)
            poll.register(process_fd, select.POLLIN)
        self._process_fd = process_fd

    def _wait(self, poll: select.poll, deadline: float) -> None:
        left = deadline - time.monotonic()
        ready = poll.poll(left * 1000) if left > 0 else []
        if not ready:
            raise DeadlinePassed
        if {fd for fd, _ in ready} == {self._process_fd}:
            raise ChildGone("the child ended")

    def pending(self) -> bool:
        """True when the child has sent something that nobody asked for, or is gone."""
        return any(fd == self._socket.fileno() and event & select.POLLIN for fd, event in self._reading.poll(0))

    def send(self, header: dict[str, Any], arrays: Sequence[np.ndarray], deadline: float) -> None:
        """Raises ChildGone, DeadlinePassed; ProtocolError when the caller's own data do not travel."""
        for part in wire.encode(header, arrays):
            view = memoryview(part).cast("B")
            while len(view):
                if time.monotonic() > deadline:
                    raise DeadlinePassed
                try:
                    view = view[self._socket.send(view[: 4 * CHUNK], socket.MSG_NOSIGNAL) :]
                except BlockingIOError:
                    self._wait(self._writing, deadline)
                except (BrokenPipeError, ConnectionResetError) as error:
                    raise ChildGone("the child closed the wire") from error

    def fill(self, view: memoryview, deadline: float) -> None:
        """Reads exactly as many bytes as `view` holds. Raises ChildGone, DeadlinePassed."""
        at = 0
        while at < len(view):
            if time.monotonic() > deadline:
                raise DeadlinePassed
            try:
                got = self._socket.recv_into(view[at:])
            except BlockingIOError:
                self._wait(self._reading, deadline)
                continue
            except ConnectionResetError as error:
                raise ChildGone("the child closed the wire") from error
            if got == 0:
                raise ChildGone("the child closed the wire")
            at += got

    def copy_to(self, file_fd: int, size: int, deadline: float, digest: Any) -> None:
        """Streams `size` bytes to a file and into a running digest."""
        buffer = memoryview(bytearray(min(size, CHUNK)))
        while size:
            view = buffer[: min(size, CHUNK)]
            self.fill(view, deadline)
            digest.update(view)
            wire.write_all(file_fd, view)
            size -= len(view)

    def receive(self, deadline: float, max_answer_bytes: int) -> tuple[dict[str, Any], list[np.ndarray]]:
        """One frame. Raises ChildGone, DeadlinePassed, ProtocolError."""
        prefix = bytearray(wire.PREFIX_BYTES)
        self.fill(memoryview(prefix), deadline)
        text = bytearray(wire.header_bytes(prefix))
        self.fill(memoryview(text), deadline)
        header, layout = wire.parse_header(text)
        if sum(size for _, _, size in layout) > max_answer_bytes:
            raise ProtocolError(f"its arrays exceed {max_answer_bytes} bytes")
        arrays = []
        for dtype, shape, size in layout:
            # np.empty takes no memory before bytes arrive: a claim alone costs nothing
            buffer = np.empty(size, np.uint8)
            if size:
                self.fill(buffer.data, deadline)
            if dtype == np.bool_ and size and int(buffer.max()) > 1:
                raise ProtocolError("a truth value is neither 0 nor 1")
            arrays.append(buffer.view(dtype).reshape(shape))
        return header, arrays
