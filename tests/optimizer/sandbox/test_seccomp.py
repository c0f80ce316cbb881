"""The filter programs: well-formed, and tighter where the sandbox shares more."""

from __future__ import annotations

import errno
import struct

import pytest

from optimizer.sandbox import seccomp

pytest.importorskip("pyseccomp")


def instructions(program: bytes) -> list[tuple[int, int, int, int]]:
    assert len(program) % 8 == 0
    return [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]


def run(program: bytes, number: int) -> int:
    """Interprets the few kinds of instruction that the second program has."""
    at, loaded = 0, 0
    code = instructions(program)
    while True:
        kind, if_true, if_false, value = code[at]
        at += 1
        if kind == 0x20:
            loaded = number if value == 0 else 0
        elif kind == 0x35:
            at += if_true if loaded >= value else if_false
        else:
            assert kind == 0x06
            return value


def test_calls_newer_than_the_list_do_not_exist() -> None:
    program = seccomp.newer_calls_program()
    allow, missing = 0x7FFF0000, 0x00050000 | errno.ENOSYS
    assert [run(program, n) for n in (0, 435, 450, 451, 463, 600)] == [allow, allow, allow, missing, missing, missing]


def test_programs_fit_into_the_kernels_limit_and_grow_with_what_is_shared() -> None:
    sizes = []
    for shares_host, shares_uid, may_signal in (
        (False, False, True),
        (True, False, True),
        (True, True, True),
        (True, True, False),
    ):
        first, second = seccomp.programs(shares_host=shares_host, shares_uid=shares_uid, may_signal=may_signal)
        assert 100 < len(instructions(first)) < 4096
        assert second == seccomp.newer_calls_program()
        sizes.append(len(first))
    assert sizes[0] == sizes[1] < sizes[2] < sizes[3]
