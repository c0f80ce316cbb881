"""The same payloads with an ordinary user's rights, and under Landlock where root's own interpreter is out of reach.

Root only: each test starts pytest anew below another uid, in a view of the machine in which the folders that are
closed around the interpreter and the project (a home, usually) are open. An ordinary user has run them all already.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from optimizer.sandbox import bubblewrap, layout
from optimizer.sandbox.choose import reason_against
from tests.hostile.support import usable

ROOT = Path(__file__).resolve().parents[2]
ORDINARY_UID = 54_321
# what the other uid or the other confinement can change; the rest is the coordinator's own side
TELLING = "written or secret or right or torch or signals or daemon or coordinator or closed or many or disk or scratch"
BECOME = "import os, sys; u = int(sys.argv[1]); os.setgroups([]); os.setresgid(u, u, u); os.setresuid(u, u, u)"
BECOME += "; os.execv(sys.argv[2], sys.argv[2:])"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="this process is not root")


def closed_ancestor(path: Path) -> Path | None:
    """The outermost folder above `path` that lets nobody else through."""
    return next((p for p in reversed(path.parents) if not os.stat(p).st_mode & 0o001), None)


def view() -> list[str]:
    """bubblewrap as a plain container: everything is there, and closed folders hold only what is needed of them."""
    usable("bubblewrap")
    program = bubblewrap.program()
    assert program is not None
    needed = [*layout.interpreter_folders(), ROOT]
    argv = [program, "--dev-bind", "/", "/"]
    for closed in dict.fromkeys(closed_ancestor(path) for path in needed):
        argv += ["--perms", "0755", "--tmpfs", str(closed)] if closed else []
    for path in needed:
        closed = closed_ancestor(path)
        if closed is None:
            continue
        for parent in reversed(path.parents):
            if parent != closed and parent.is_relative_to(closed):
                argv += ["--perms", "0755", "--dir", str(parent)]
        argv += ["--ro-bind", str(path), str(path)]
    return [*argv, "--cap-add", "ALL", "--die-with-parent", "--"]


def run_tests(uid: int, files: list[str], words: str) -> str:
    """Runs tests of this folder; answers pytest's summary. The output tells what failed."""
    tests = [str(Path(__file__).with_name(file)) for file in files]
    pytest_argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", words]
    argv = [*view(), sys.executable, "-c", BECOME, str(uid), *pytest_argv]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/", "PYTEST_ADDOPTS": ""}
    environment.pop("FUSEWORKS_CI", None)  # the one test about root is skipped, and counted below
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        os.mkdir(f"{folder}/own")
        os.chown(f"{folder}/own", uid, uid)
        os.chmod(f"{folder}/own", 0o711)
        environment["TMPDIR"] = f"{folder}/own"
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    summary = done.stdout.strip().splitlines()[-1]
    assert " passed" in summary
    return summary


@pytest.mark.slow
def test_an_ordinary_user_is_as_safe_under_bubblewrap() -> None:
    summary = run_tests(ORDINARY_UID, ["test_reach.py", "test_processes.py"], f"bubblewrap and ({TELLING})")
    assert "skipped" not in summary or "1 skipped" in summary  # the one about root's uids


def test_an_ordinary_user_is_as_safe_under_landlock() -> None:
    summary = run_tests(
        ORDINARY_UID, ["test_reach.py", "test_processes.py", "test_resources.py"], f"landlock and ({TELLING})"
    )
    assert "skipped" not in summary or "1 skipped" in summary


@pytest.mark.slow
def test_root_is_as_safe_under_landlock() -> None:
    if reason_against("landlock") is None:
        pytest.skip("Landlock is offered to this very process: its tests have run")
    run_tests(0, ["test_reach.py", "test_processes.py"], f"landlock and ({TELLING})")
