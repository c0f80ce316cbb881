"""How packages get into `.venv`: uv where it can be had, else pip. Both honour the user's pip settings.

uv reads none of pip's configuration, so pip's own answer (`pip config list`: files and PIP_* together) is handed to uv
as UV_* unless the user set those. No index is named here.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

# Relative on purpose: both tools split these settings at spaces, and a clone may lie in a folder with one.
LOCK = "requirements.lock"

UV_NAMES = {
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}


def pip_settings(root: Path, python: Path) -> dict[str, str]:
    """pip's settings for `install`, files below environment, lists joined by spaces."""
    command = [str(python), "-m", "pip", "config", "list"]
    listing = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in found:
            found[section][option] = " ".join(str(ast.literal_eval(value)).split())
    return {**found["global"], **found["install"], **found[":env:"]}


class Pip:
    name = "pip"

    def __init__(self, root: Path, python: Path) -> None:
        self.root = root
        self.pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-c", LOCK]
        theirs = pip_settings(root, python).get("constraint", "")
        # pip before 25.3 reads PIP_CONSTRAINT when it builds the editable package, later ones PIP_BUILD_CONSTRAINT.
        constraint = f"{theirs} {LOCK}".strip()
        self.environment = {**os.environ, "PIP_CONSTRAINT": constraint, "PIP_BUILD_CONSTRAINT": LOCK}

    def install(self, requirement: str) -> None:
        command = [*self.pip, "-e", requirement]
        # close_fds=False: it keeps set-up's lock for as long as it writes.
        subprocess.run(command, cwd=self.root, env=self.environment, check=True, close_fds=False)

    def install_uv(self) -> None:
        command = [*self.pip, "--quiet", "uv"]
        subprocess.run(command, cwd=self.root, check=True, close_fds=False)


class Uv:
    name = "uv"

    def __init__(self, uv: str, root: Path, python: Path) -> None:
        self.uv = uv
        self.root = root
        self.python = python
        self.environment = self._environment()

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        settings = pip_settings(self.root, self.python)
        for option, name in UV_NAMES.items():
            if option in settings:
                environment.setdefault(name, settings[option])
        if "extra-index-url" in settings:
            # pip takes the best version of all indexes; uv would stop at the first that has the package at all.
            environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
        if not os.access(os.path.expanduser("~"), os.W_OK):
            environment.setdefault("UV_CACHE_DIR", str(self.root / ".fuseworks" / "uv-cache"))
        return environment

    def install(self, requirement: str) -> None:
        # Bytecode now: sandboxed children read .venv but never write there, and would compile torch anew each time.
        command = [self.uv, "pip", "install", "--python", str(self.python), "--compile-bytecode", "--constraints", LOCK]
        command += ["--build-constraints", LOCK, "-e", requirement]
        subprocess.run(command, cwd=self.root, env=self.environment, check=True, close_fds=False)


def choose(root: Path, python: Path, say: Callable[[str], None]) -> Pip | Uv:
    """uv from PATH, else one that pip puts into .venv, else pip."""
    uv = shutil.which("uv")
    if uv is not None:
        return Uv(uv, root, python)
    ours = python.parent / "uv"
    pip = Pip(root, python)
    if not ours.exists():
        say("Getting uv, which installs faster than pip (19 MB).")
        try:
            pip.install_uv()
        except subprocess.CalledProcessError:
            say("uv cannot be had here; pip does it, which takes longer.")
            return pip
    return Uv(str(ours), root, python)
