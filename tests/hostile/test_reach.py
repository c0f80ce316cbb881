"""Payloads that reach out: no socket, no secret, no foreign file, no right that they did not have."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import optimizer
from optimizer.sandbox.launch import Mode
from tests.hostile.support import ROOMY, not_denied, payload_child, victim

CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def test_no_kind_of_socket_can_be_opened(mode: Mode) -> None:
    with payload_child(mode) as child:
        found = child.call("payload.sockets", timeout_s=60).fields["found"]
    assert len(found) > 40
    assert not not_denied(found)


def test_no_secret_can_be_read(mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEWORKS_TEST_SECRET", "s3cret-of-the-coordinator")
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret-in-a-file")
    home = Path.home()
    paths = [
        "/etc/passwd",
        "/etc/shadow",
        "/etc/hostname",
        "/proc/kcore",
        "/root",
        "/home",
        "/var/log",
        "/tmp/.X11-unix",
    ]
    paths += [str(secret), str(tmp_path), str(home / ".ssh"), f"/proc/{os.getpid()}/environ", "/proc/1/environ"]
    # only what exists proves anything, and a sandbox has a /tmp, /home and /root of its own
    with victim() as other, payload_child(mode) as child:
        reply = child.call("payload.read_around", timeout_s=60, paths=paths, pid=other.pid)
    leaked = {k: v for k, v in reply.fields["found"].items() if "s3cret" in v or "sleep" in v or "root:" in v}
    assert not leaked
    assert "s3cret" not in str(reply.fields["environment"])
    for path in ("/etc/passwd", "/etc/shadow", str(secret), f"/proc/{os.getpid()}/environ"):
        assert not reply.fields["found"][path].startswith("done"), path


def test_nothing_outside_of_the_scratch_can_be_written(mode: Mode, tmp_path: Path) -> None:
    result = tmp_path / "result"
    result.mkdir()
    (result / "result.json").write_text("{}")
    given = tmp_path / "model.py"
    given.write_text("x = 1\n")
    for path in (tmp_path, result):
        path.chmod(0o777)  # only the sandbox stands in the way
    for path in (result / "result.json", given):
        path.chmod(0o666)
    package = Path(optimizer.__file__)
    with payload_child(mode, inputs={"model.py": given, "result": result}) as child:
        inside = [child.path("model.py"), child.path("result") + "/result.json"]
        files = [
            *inside,
            str(result / "result.json"),
            str(package),
            sys.executable,
            "/usr/bin/env",
            "/proc/sys/vm/swappiness",
        ]
        folders = [child.path("result"), str(result), str(package.parent), "/usr", "/etc", "/", "/dev", "/var/tmp"]
        before = {path: os.stat(path) for path in (result / "result.json", given, result)}
        found = child.call("payload.write_around", timeout_s=60, files=files, folders=folders).fields["found"]
    if os.geteuid() == 0:
        # a uid of its own may touch neither attributes nor files; in a PID namespace most paths do not exist at all
        assert not not_denied(found)
    else:
        assert not not_denied(found, but=tuple(name for name in found if name.startswith(("chmod", "utime"))))
    assert sorted(os.listdir(tmp_path)) == ["model.py", "result"]
    assert os.listdir(result) == ["result.json"]
    assert (result / "result.json").read_text() == "{}"
    for path, was in before.items():
        now = os.stat(path)
        assert (now.st_mode, now.st_mtime_ns, now.st_nlink) == (was.st_mode, was.st_mtime_ns, was.st_nlink), path


def test_no_right_can_be_gained(mode: Mode) -> None:
    with victim() as other, payload_child(mode) as child:
        reply = child.call("payload.privileges", timeout_s=60, pid=other.pid)
    assert not not_denied(reply.fields["found"])
    status = reply.fields["status"]
    assert [int(status[name], 16) for name in CAPABILITIES] == [0, 0, 0, 0]
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Groups"].strip() == "" or os.geteuid() != 0


def test_a_child_of_root_has_a_uid_of_its_own(mode: Mode) -> None:
    if os.geteuid() != 0:
        pytest.skip("this process is not root")
    with payload_child(mode) as one, payload_child(mode) as other:
        uids = {child.call("payload.hello", timeout_s=60).fields["uid"] for child in (one, other)}
    assert len(uids) == 2
    assert min(uids) > 60_000


def test_a_closed_input_is_readable_for_the_child_and_stays_closed_outside(mode: Mode, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    (folder / "f").write_text("given")
    (folder / "f").chmod(0o600)
    with payload_child(mode, inputs={"one": folder / "f", "all": folder}) as child:
        paths = [child.path("one"), child.path("all") + "/f"]
        found = child.call("payload.read_around", timeout_s=60, paths=paths, pid=1).fields["found"]
    assert [found[path] for path in paths] == ["done: 'given'"] * 2
    assert (folder.stat().st_mode & 0o777, (folder / "f").stat().st_mode & 0o777) == (0o700, 0o600)


def test_torch_and_the_compiler_work_inside(mode: Mode) -> None:
    with payload_child(mode, ROOMY) as child:
        reply = child.call("payload.torch_and_compiler", timeout_s=300)
    assert reply.fields["f"] == 4.0  # sqrt(9) + 1
    assert reply.arrays[0].tolist() == [[8.0] * 5] * 3  # four products of 1 and 2


def test_a_trusted_child_says_that_nothing_confines_it() -> None:
    with payload_child("trusted") as child:
        assert child.sandbox == "none (trusted)"
        assert child.call("payload.hello", timeout_s=60).fields["uid"] == os.getuid()


def test_a_child_names_its_confinement(mode: Mode) -> None:
    with payload_child(mode) as child:
        assert child.sandbox == mode
