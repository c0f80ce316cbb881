"""Makes `.venv/` with Fuseworks in it, builds the front end and compiles the translations, or does nothing when all is
current. `make setup`, `demo` and `test` call it.

    python scripts/set_up.py [--with test]

.venv is current with the same pyproject.toml (dependencies and build), requirements.lock, folder and Python as when it
was made. A set-up that was interrupted is begun anew. FUSEWORKS_NO_FRONTEND=1 leaves the front end out. Standard
library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import catalogue
import downloads
import frontend
import installers

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "fuseworks-set-up.json"
UNFINISHED = VENV / "fuseworks-set-up-unfinished"
STATE = ROOT / ".fuseworks"
EXTRAS = {"test", "node"}
SMOKE_TEST = "import torch, numpy, optimizer, kernels, fuseworks, fuseworks_client"


def say(message: str) -> None:
    print(f"==> {message}", flush=True)


def key() -> str:
    """Digest of all that decides what is installed. Lint and test settings of pyproject.toml do not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    decides = [project["build-system"], project["project"], project["dependency-groups"], project["tool"]["hatch"]]
    lock = (ROOT / "requirements.lock").read_text()
    text = json.dumps([decides, lock, str(ROOT), sys.version], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def installed_groups(wanted_key: str) -> set[str]:
    """What a finished set-up with this key installed; empty when there is none or its Python is gone."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return set()
    if stamp.get("key") != wanted_key or UNFINISHED.exists() or not runs(VENV_PYTHON):
        return set()
    return set(stamp["groups"])


def runs(python: Path) -> bool:
    try:
        return subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def same_interpreter() -> bool:
    """Whether .venv was made in this folder by this Python: its scripts name both."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    return stamp.get("root") == str(ROOT) and stamp.get("python") == sys.version and runs(VENV_PYTHON)


def make_venv() -> None:
    """A new .venv with pip, unless the one that is there can be brought up to date."""
    if VENV.exists():
        if not UNFINISHED.exists() and same_interpreter():
            return
        say("Removing .venv: an earlier set-up did not finish, or it was made elsewhere or by another Python.")
        shutil.rmtree(VENV)
    say(f"Creating .venv with Python {sys.version.split()[0]}.")
    try:
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    except subprocess.CalledProcessError:
        uv = shutil.which("uv")
        if uv is None:
            raise
        say("This Python cannot do it by itself: uv does.")
        subprocess.run([uv, "venv", "--quiet", "--seed", "--clear", "--python", sys.executable, VENV], check=True)


def requirement_of(groups: set[str]) -> str:
    extras = sorted(groups & EXTRAS)
    return f".[{','.join(extras)}]" if extras else "."


def install(groups: set[str]) -> None:
    requirement = requirement_of(groups)
    plan = downloads.plan(ROOT, VENV_PYTHON, groups & EXTRAS)
    say(f"Installing {plan.describe()}.")
    for line in plan.warnings():
        print(f"    {line}", flush=True)
    installer = installers.choose(ROOT, VENV_PYTHON, say)
    try:
        installer.install(requirement)
    except subprocess.CalledProcessError:
        if installer.name == "pip":
            raise
        say("uv could not install it; trying again with pip.")
        installers.Pip(ROOT, VENV_PYTHON).install(requirement)


def set_up(groups: set[str]) -> None:
    started = time.monotonic()
    wanted = key()
    there = installed_groups(wanted)
    if groups <= there:
        return
    make_venv()
    UNFINISHED.touch()
    install(groups | there)
    say("Checking that it imports.")
    subprocess.run([VENV_PYTHON, "-m", "pip", "check"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([VENV_PYTHON, "-c", SMOKE_TEST], check=True, cwd=ROOT)
    stamp = {"key": wanted, "groups": sorted(groups | there), "root": str(ROOT), "python": sys.version}
    STAMP.write_text(json.dumps(stamp))
    UNFINISHED.unlink()
    say("Preparing the compilers' cache of this machine (once, about a minute).")
    subprocess.run([VENV_PYTHON, "-m", "optimizer", "prepare"], check=False, cwd=ROOT)  # a run does it if this cannot
    say(f"Set-up done in {time.monotonic() - started:.0f} s. The command is .venv/bin/fuseworks.")
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        say("No C++ compiler was found: Inductor and AOTInductor will not be tried. `make doctor` says more.")


def wanted_groups(asked: set[str]) -> set[str]:
    """`node` is installed only where the front end is wanted and the machine has no Node of its own that fits."""
    needs_node = frontend.wanted() and frontend.own_node() is None
    return {"demo", *asked, *(["node"] if needs_node else [])}


def set_up_everything(asked: set[str]) -> None:
    set_up(wanted_groups(asked))
    catalogue.compile_all(ROOT / "frontend" / "locale")
    if frontend.wanted():
        frontend.build(say, tests="test" in asked)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="groups", action="append", choices=["test"], default=[])
    asked = set(parser.parse_args().groups)
    STATE.mkdir(exist_ok=True)
    with open(STATE / "set-up.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up is at work in this folder; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        # The installer inherits the lock: when this process is killed, the next waits for the orphan to end.
        os.set_inheritable(lock.fileno(), True)
        try:
            set_up_everything(asked)
        except frontend.FrontendFailed as error:
            print(f"\nThe front end could not be built. {error}\n{frontend.HELP}", file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as error:
            command = " ".join(str(part) for part in error.cmd)
            print(f"\nSet-up failed (exit {error.returncode}): {command}", file=sys.stderr)
            print("Mend the cause above and call the same command again; it begins anew.", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nSet-up was interrupted; the next call begins anew.", file=sys.stderr)
            return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
