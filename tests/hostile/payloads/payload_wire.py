"""Answers that are none, and files that must not be taken."""

import json
import os
import struct
import time

from payload_registry import operation


def frame(header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"FW01" + struct.pack("<I", len(text)) + text


WIRE = {
    "garbage": b"\x00garbage that is no frame at all",
    "huge header": b"FW01" + struct.pack("<I", 0xFFFFFFFF),
    "not json": frame(b"{nope"),
    "not an object": frame(b"[1, 2]"),
    "nan": frame(b'{"event": "done", "x": NaN}'),
    "infinity": frame(b'{"event": "done", "x": -Infinity}'),
    "half a surrogate": frame(b'{"event": "done", "x": "\\ud800"}'),
    "deep": frame(b'{"event": "done", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "long number": frame(b'{"event": "done", "x": ' + b"9" * 100_000 + b"}"),
    "unknown event": frame({"event": "pwned"}),
    "no event": frame({"x": 1}),
    "event of wrong kind": frame({"event": ["done"]}),
    "ready again": frame({"event": "ready"}),
    "pickled dtype": frame({"event": "done", "buffers": [["object", [1]]]}) + b"x" * 8,
    "negative shape": frame({"event": "done", "buffers": [["int8", [-1]]]}),
    "true as a dim": frame({"event": "done", "buffers": [["int8", [True]]]}),
    "enormous shape": frame({"event": "done", "buffers": [["int8", [1 << 39, 1 << 39]]]}),
    "empty but enormous": frame({"event": "done", "buffers": [["int8", [0, 1 << 39, 1 << 39]]]}),
    "too many bytes": frame({"event": "done", "buffers": [["int8", [1 << 31]]] * 3}),
    "dtype of wrong kind": frame({"event": "done", "buffers": [[["int8"], [1]]]}),
    "truth that is 7": frame({"event": "done", "buffers": [["bool", [1]]]}) + b"\x07",
    "file nobody wants": frame({"event": "file", "name": "a", "size": 1}) + b"x",
    "progress of wrong kind": frame({"event": "progress", "message": 5, "data": {}}),
    "error of wrong kind": frame({"event": "done", "error": "no"}),
    "error that blames us": frame({"event": "done", "error": {"id": "run:ours:machine"}}),
    "error with a strange context": frame({"event": "done", "error": {"id": "child:user:exception", "context": [1]}}),
}
FILES = {
    "parent": {"name": "../evil", "size": 1},
    "slash": {"name": "a/b", "size": 1},
    "absolute": {"name": "/tmp/evil", "size": 1},
    "dots": {"name": "..", "size": 1},
    "hidden": {"name": ".bashrc", "size": 1},
    "empty": {"name": "", "size": 1},
    "zero byte": {"name": "a\0b", "size": 1},
    "newline": {"name": "a\n", "size": 1},
    "no text": {"name": 7, "size": 1},
    "long": {"name": "a" * 300, "size": 1},
    "negative": {"name": "a", "size": -1},
    "fraction": {"name": "a", "size": 1.5},
    "truth": {"name": "a", "size": True},
    "too large": {"name": "a", "size": 1 << 50},
    "no size": {"name": "a"},
}


@operation
def speak(session, request, arrays):
    """Writes what is no answer, then waits to be judged."""
    os.write(session.fd, WIRE[request["what"]])
    time.sleep(60)


@operation
def send_bad_file(session, request, arrays):
    os.write(session.fd, frame({"event": "file", **FILES[request["what"]]}) + b"x")
    time.sleep(60)


@operation
def send_twice(session, request, arrays):
    path = session.scratch / "f"
    path.write_bytes(b"x")
    session.send_file("same", path)
    session.send_file("same", path)
    return {}, []


@operation
def send_many(session, request, arrays):
    path = session.scratch / "f"
    path.write_bytes(b"x" * request["size"])
    for number in range(request["count"]):
        session.send_file(f"f{number}", path)
    return {}, []


@operation
def trickle(session, request, arrays):
    """A frame that never ends, a byte at a time: each byte is in time, the whole never is."""
    os.write(session.fd, b"FW01" + struct.pack("<I", 1 << 20))
    while True:
        os.write(session.fd, b" ")
        time.sleep(0.02)


@operation
def promise_and_stop(session, request, arrays):
    os.write(session.fd, frame({"event": "done", "buffers": [["int8", [1 << 30]]]}) + b"x")
    time.sleep(60)


@operation
def progress_for_ever(session, request, arrays):
    while True:
        session.progress("still at it")


@operation
def answer_twice(session, request, arrays):
    os.write(session.fd, frame({"event": "done", "stolen": True}))
    return {}, []


@operation
def close_wire(session, request, arrays):
    if request["linger"]:
        os.close(session.fd)
        time.sleep(60)
    if os.fork() == 0:
        time.sleep(60)  # keeps the wire open behind the dead child's back
    os._exit(3)


@operation
def never_read_again(session, request, arrays):
    os.write(session.fd, frame({"event": "done"}))
    time.sleep(60)
