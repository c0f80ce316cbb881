"""What a child is given: inputs by name, an environment, the project's packages and nothing else of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from optimizer.errors import FuseworksError
from optimizer.sandbox import bubblewrap, identity, layout, limits, staging
from optimizer.sandbox.child import ChildFailed, start
from optimizer.sandbox.spec import ChildSpec, Limits


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "", "a b", "a\n"])
def test_an_input_with_an_odd_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FuseworksError) as caught:
        staging.resolved_inputs({name: tmp_path})
    assert caught.value.id == "sandbox:usage:input"


def test_an_input_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FuseworksError) as caught:
        start(ChildSpec("x", inputs={"model.py": tmp_path / "none.py"}, trusted=True))
    assert caught.value.id == "sandbox:usage:input"
    assert "none.py" in caught.value.message


def test_only_inputs_that_the_uid_cannot_read_are_copied(tmp_path: Path) -> None:
    opened, closed, folder = tmp_path / "open", tmp_path / "closed", tmp_path / "folder"
    for path, mode in ((opened, 0o644), (closed, 0o600)):
        path.write_text(path.name)
        path.chmod(mode)
    folder.mkdir(mode=0o755)
    (folder / "f").write_text("deep")
    (folder / "f").chmod(0o600)
    given = {"a": opened, "b": closed, "c": folder}
    assert staging.readable(given, uid=None, parents_count=True, folder=tmp_path / "in") == given
    staged = staging.readable(given, uid=4711, parents_count=False, folder=tmp_path / "in")
    assert staged["a"] == opened
    assert staged["b"].read_text() == "closed"
    assert staged["b"].stat().st_mode & 0o777 == 0o644
    assert (staged["c"] / "f").read_text() == "deep"
    assert (staged["c"] / "f").stat().st_mode & 0o777 == 0o644
    assert closed.stat().st_mode & 0o777 == 0o600


def test_the_layout_holds_the_interpreter_and_two_packages_of_the_project() -> None:
    import sys

    paths = layout.read_only_paths()
    packages = layout.project_packages()
    assert [path.name for path in packages] == ["optimizer", "kernels"]
    assert packages[0].parent not in paths
    for needed in (sys.executable, os.path.realpath(sys.executable), os.__file__):
        assert any(Path(needed).is_relative_to(path) for path in paths), needed
    assert Path("/") not in paths
    assert Path.home() not in paths


def test_bubblewraps_arguments_share_no_namespace_and_leave_nothing_writable_unsized(tmp_path: Path) -> None:
    given = bubblewrap.arguments(inputs={"m": tmp_path}, limits=Limits(), devices=(), drops_uid=False)
    assert "--unshare-all" in given
    assert "--bind" not in given
    assert "--dev-bind" not in given
    sized = [given[i - 4] for i, word in enumerate(given) if word == "--tmpfs"]
    assert sized == ["--size", "--size"]
    assert given[-4:] == ["--remount-ro", "/dev", "--remount-ro", "/"]
    as_root = bubblewrap.arguments(inputs={}, limits=Limits(), devices=("/dev/nvidia0",), drops_uid=True)
    assert {"--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"} <= set(as_root)
    assert as_root[as_root.index("--dev-bind") + 1] == "/dev/nvidia0"


def test_root_drops_to_a_uid_that_nobody_has_and_others_keep_theirs() -> None:
    uid = identity.uid_to_drop_to()
    if os.geteuid() != 0:
        assert uid is None
    else:
        assert uid is not None
        assert uid >= 1000
        assert limits.tasks_of(uid) == 0


def test_limits_bind_each_process_and_a_device_lifts_the_one_on_private_memory() -> None:
    import resource

    bounds = dict(limits.rlimits(Limits(memory_bytes=5, processes=7, file_bytes=9), counts_from=100))
    assert bounds[resource.RLIMIT_DATA] == 5
    assert bounds[resource.RLIMIT_NPROC] == 107
    assert bounds[resource.RLIMIT_FSIZE] == 9
    assert resource.RLIMIT_DATA not in dict(limits.rlimits(Limits(), has_device=True))


def test_the_environment_of_the_spec_reaches_the_child_and_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")
    from tests.hostile.support import PAYLOADS, entry

    spec = ChildSpec("x", inputs={"payloads": PAYLOADS}, environment={"OMP_NUM_THREADS": "2"}, trusted=True)
    with start(spec, command=entry) as child:
        environment = child.call("payload.where", timeout_s=60).fields["environment"]
    assert environment["OMP_NUM_THREADS"] == "2"
    assert "PYTHONSTARTUP" not in environment


def test_a_child_whose_first_code_fails_is_our_fault_and_quotes_it() -> None:
    def broken(fd: int, paths: object) -> list[str]:
        return ["/bin/sh", "-c", "echo it is broken >&2; exit 7"]

    with pytest.raises(ChildFailed) as caught:
        start(ChildSpec("x", trusted=True), command=broken)
    assert caught.value.id == "sandbox:ours:start-failed"
    assert "it is broken" in str(caught.value.detail)


def test_an_operation_that_nobody_has_is_an_error_of_the_child_that_lives_on() -> None:
    with start(ChildSpec("x", trusted=True)) as child:
        for op in ("nonsense", "os.system", "compiling.no_such_operation"):
            with pytest.raises(ChildFailed):
                child.call(op, timeout_s=60)


def test_a_call_after_kill_says_so() -> None:
    child = start(ChildSpec("x", trusted=True))
    child.kill()
    child.kill()
    with pytest.raises(ChildFailed) as caught:
        child.call("payload.hello", timeout_s=1)
    assert "killed" in str(caught.value.detail)


def test_an_exception_of_the_caller_ends_the_child() -> None:
    """A run that is cancelled from its own progress callback must not leave a half-read wire."""
    from tests.hostile.support import payload_child

    class Cancelled(Exception):
        pass

    def cancel(message: str, data: object) -> None:
        raise Cancelled

    with payload_child("trusted") as child:
        with pytest.raises(Cancelled):
            child.call("payload.report", timeout_s=60, on_progress=cancel)
        with pytest.raises(ChildFailed):
            child.call("payload.hello", timeout_s=60)


def test_progress_arrives_in_order() -> None:
    from tests.hostile.support import payload_child

    seen: list[tuple[str, dict[str, object]]] = []
    with payload_child("trusted") as child:
        child.call("payload.report", timeout_s=60, on_progress=lambda message, data: seen.append((message, data)))
    assert seen == [("step", {"number": number}) for number in range(3)]
