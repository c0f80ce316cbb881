"""Payloads that break the protocol: the coordinator takes nothing that it should not, and always goes on in time."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from optimizer.sandbox.child import ChildFailed
from optimizer.sandbox.launch import Mode
from tests.hostile.support import MIB, PAYLOADS, ROOMY, failure, next_child_works, payload_child

BAD = "child:user:bad-answer"


def payload_module(name: str) -> ModuleType:
    """The payloads' own list of tricks, so that none can be forgotten here."""
    sys.path.insert(0, str(PAYLOADS))
    try:
        spec = importlib.util.spec_from_file_location(name, PAYLOADS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(PAYLOADS))


WIRE = payload_module("payload_wire")


@pytest.mark.parametrize("what", list(WIRE.WIRE))
def test_what_is_no_answer_is_refused(any_mode: Mode, what: str) -> None:
    with payload_child(any_mode) as child:
        error = failure(child, "speak", what=what)
    assert error.id == BAD, error
    assert "protocol" in error.message


@pytest.mark.parametrize("what", list(WIRE.FILES))
def test_a_file_with_a_bad_name_or_size_is_refused(any_mode: Mode, tmp_path: Path, what: str) -> None:
    collect = tmp_path / "collected"
    with payload_child(any_mode) as child:
        error = failure(child, "send_bad_file", collect=collect, what=what)
    assert error.id == BAD, error
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["collected"])


def test_files_twice_too_many_or_too_large_together_are_refused(any_mode: Mode, tmp_path: Path) -> None:
    limits = replace(ROOMY, collected_files=3, collected_bytes=2 * MIB)
    for op, fields in (
        ("send_twice", {}),
        ("send_many", {"count": 4, "size": 1}),
        ("send_many", {"count": 3, "size": MIB}),
    ):
        with payload_child(any_mode, limits) as child:
            assert failure(child, op, collect=tmp_path / op, **fields).id == BAD


def test_a_file_arrives_whole_with_its_digest_and_replaces_a_link(any_mode: Mode, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    collect = tmp_path / "collected"
    collect.mkdir()
    (collect / "f0").symlink_to(outside)
    with payload_child(any_mode) as child:
        reply = child.call("payload.send_many", timeout_s=60, collect=collect, count=2, size=3 * MIB + 1)
    data = b"x" * (3 * MIB + 1)
    assert set(reply.files) == {"f0", "f1"}
    assert reply.files["f0"].sha256 == hashlib.sha256(data).hexdigest()
    assert (collect / "f0").read_bytes() == data
    assert outside.read_text() == "mine"


def test_a_frame_that_trickles_in_ends_at_the_deadline(any_mode: Mode) -> None:
    with payload_child(any_mode) as child:
        started = time.monotonic()
        error = failure(child, "trickle", timeout_s=1.0)
    assert error.id == "child:user:timed-out"
    assert "no answer within 1 s while it was payload." in error.message, "an operation is told by its stage"
    assert time.monotonic() - started < 10


def test_bytes_that_were_promised_and_never_come_end_at_the_deadline(any_mode: Mode) -> None:
    with payload_child(any_mode) as child:
        assert failure(child, "promise_and_stop", timeout_s=1.0).id == "child:user:timed-out"


def test_a_child_that_does_not_read_ends_at_the_deadline(any_mode: Mode) -> None:
    with payload_child(any_mode) as child:
        child.call("payload.never_read_again", timeout_s=60)
        started = time.monotonic()
        with pytest.raises(ChildFailed) as caught:
            child.call("payload.echo", [np.zeros(8 * MIB, np.uint8)], timeout_s=1.0)
    assert caught.value.id == "child:user:timed-out"
    assert time.monotonic() - started < 10


def test_progress_without_end_is_refused(any_mode: Mode) -> None:
    with payload_child(any_mode) as child:
        assert failure(child, "progress_for_ever").id == BAD


def test_an_answer_before_the_question_is_refused(any_mode: Mode) -> None:
    with payload_child(any_mode) as child:
        assert child.call("payload.answer_twice", timeout_s=60).fields == {"stolen": True}
        time.sleep(0.3)
        error = failure(child, "hello")
    assert error.id == BAD
    assert "before it was asked" in error.message


def test_a_closed_wire_is_noticed_also_while_a_daemon_holds_it_open(any_mode: Mode) -> None:
    with payload_child(any_mode) as child:
        error = failure(child, "close_wire", linger=True)
        assert error.id == BAD
        assert "closed the wire" in error.message
    with payload_child(any_mode) as child:
        error = failure(child, "close_wire", linger=False)
        assert error.id == "child:user:crashed"
        assert "exit code 3" in error.message


def test_arrays_larger_than_an_answer_may_be_are_refused(any_mode: Mode) -> None:
    with payload_child(any_mode, replace(ROOMY, answer_bytes=MIB)) as child, pytest.raises(ChildFailed) as caught:
        child.call("payload.echo", [np.zeros(MIB + 1, np.uint8)], timeout_s=60)
    assert caught.value.id == BAD


@pytest.mark.parametrize(
    ("kind", "id_"),
    [
        ("plain", "child:user:exception"),
        ("exit", "child:user:exception"),
        ("unprintable", "child:user:exception"),
        ("memory", "child:user:out-of-memory"),
        ("torch's memory", "child:user:out-of-memory"),
        ("disk", "child:user:disk-full"),
    ],
)
def test_what_an_operation_raises_arrives_as_its_error_and_the_child_lives_on(
    any_mode: Mode, kind: str, id_: str
) -> None:
    with payload_child(any_mode) as child:
        error = failure(child, "raise_it", kind=kind)
        assert error.id == id_
        assert "<" not in error.message
        assert child.call("payload.hello", timeout_s=60).fields["pid"]


def test_an_exceptions_place_is_the_models_own_line(any_mode: Mode) -> None:
    with payload_child(any_mode) as child:
        error = failure(child, "raise_it", kind="plain")
    assert error.place is not None
    assert error.place.startswith("payload_harmless.py:")
    assert error.message == "The model's own code raised ValueError: no such luck"


def test_an_answer_that_cannot_travel_is_our_fault(any_mode: Mode) -> None:
    with payload_child(any_mode) as child:
        assert failure(child, "not_json").id == "child:ours:unexpected"


def test_arrays_and_fields_come_back_as_they_went(any_mode: Mode) -> None:
    arrays = [
        np.arange(15, dtype=np.float32).reshape(3, 5),
        np.array(7.5),
        np.zeros((0, 4), np.int64),
        np.array([True, False]),
        np.arange(12, dtype=np.int32).reshape(3, 4).T,
    ]
    with payload_child(any_mode) as child:
        reply = child.call("payload.echo", arrays, timeout_s=60, text="ä\0", number=1.5, nothing=None)
    assert reply.fields["fields"] == {"text": "ä\0", "number": 1.5, "nothing": None}
    assert [a.dtype for a in reply.arrays] == [a.dtype for a in arrays]
    assert [a.shape for a in reply.arrays] == [(3, 5), (), (0, 4), (2,), (4, 3)]
    assert all(np.array_equal(a, b) for a, b in zip(reply.arrays, arrays, strict=True))


def test_the_next_child_works_after_all_this(any_mode: Mode) -> None:
    next_child_works(any_mode)
