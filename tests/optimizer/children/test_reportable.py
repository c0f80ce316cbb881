"""A child tells the errors of its own operations and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from optimizer import errors
from optimizer.children import __main__ as entry
from optimizer.children.reportable import OURS, STAGES, may_report
from optimizer.sandbox import ChildFailed, ChildSpec, start

OPTIMIZER = Path(entry.__file__).parents[1]


def test_every_error_of_ours_that_a_stages_code_raises_may_be_reported_and_no_other() -> None:
    raised = {
        id_
        for stage in STAGES
        for path in (OPTIMIZER / stage).rglob("*.py")
        for id_ in re.findall(r"\"([a-z]+:ours:[a-z-]+)\"", path.read_text())
    }
    assert raised - {"child:ours:unexpected"} == OURS


@pytest.mark.parametrize(
    "id_",
    [
        "benchmarking:ours:busy",
        "benchmarking:user:clock",
        "child:user:timed-out",
        "child:user:crashed",
        "evaluating:ours:baseline",
        "packaging:ours:not-lowered",
        "replay:user:not-accepted",
        "run:usage:spec",
        "sandbox:ours:unavailable",
        "sandbox:ours:start-failed",
    ],
)
def test_what_only_the_coordinator_can_know_is_no_childs_to_tell(id_: str) -> None:
    assert not may_report(id_)


def test_the_faults_of_a_model_and_of_an_engine_are() -> None:
    for id_ in ("capturing:user:syntax-error", "compiling:user:refused", "child:user:exception", *OURS):
        assert may_report(id_), id_


HOSTILE = """
import sys
sys.path.insert(0, {root!r})
from optimizer.children import wire
fd = int(sys.argv[1])
wire.send(fd, {{"event": "ready", "pid": 1, "start_s": 0.0}})
wire.receive(fd)
wire.send(fd, {{"event": "done", "error": {{"id": {id_!r}, "detail": "mine", "context": {{"text": "x"}}}}}})
try:
    wire.receive(fd)
except EOFError:
    pass
"""


def reported(id_: str) -> ChildFailed:
    import sys

    def hostile(fd: int, paths: object) -> list[str]:
        return [sys.executable, "-c", HOSTILE.format(root=str(OPTIMIZER.parent), id_=id_), str(fd)]

    errors.load_catalogue()
    with start(ChildSpec("hostile", trusted=True), command=hostile) as child, pytest.raises(ChildFailed) as caught:
        child.call("verifying.run", timeout_s=60)
    return caught.value


def test_a_hostile_child_that_blames_the_machine_is_a_model_that_broke_the_protocol() -> None:
    failure = reported("benchmarking:ours:busy")
    assert (failure.id, failure.side) == ("child:user:bad-answer", "user")
    assert "benchmarking:ours:busy" in failure.message


def test_a_childs_own_error_reaches_the_run_as_it_is() -> None:
    assert reported("compiling:ours:compile-error").id == "compiling:ours:compile-error"
