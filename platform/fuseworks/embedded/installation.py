"""One installation on this machine: its folder, its secrets, the environment of its processes, and who may sign in."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from fuseworks.embedded.children import ServerFailed
from fuseworks.embedded.postgres import Postgres
from fuseworks.embedded.valkey import Valkey

ROOT = Path(__file__).resolve().parents[3]
DATABASE = "fuseworks"


class AlreadyRunning(RuntimeError):
    """Another supervisor holds this installation, or something else its port."""


def closed_folder(folder: Path) -> None:
    """Makes it, or closes one that is empty or an installation already. Any other keeps its mode: it is somebody's."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = any((folder / name).exists() for name in ("supervisor.lock", "secret-key"))
    if ours or not any(folder.iterdir()):
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)


class Installation:
    """`folder` holds the database, the broker's file, uploads and logs; only its owner may enter.

    Started as root, others may walk through it (not list it), since PostgreSQL drops root and must reach its own folder
    below; what they could then name is closed to them.
    """

    def __init__(self, folder: Path, *, port: int, workers: int) -> None:
        self.folder = folder
        self.port = port
        self.workers = workers
        self.url = f"http://127.0.0.1:{port}"
        self.logs = folder / "logs"
        self.postgres = None if "DATABASE_URL" in os.environ else Postgres(folder / "postgres")
        self.valkey: Valkey | None = None
        self.has_samples = False
        self._lock: Any = None

    def hold(self) -> None:
        """Raises AlreadyRunning. The lock ends with this process, however it ends."""
        closed_folder(self.folder)
        self._lock = (self.folder / "supervisor.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(
                f"Fuseworks is already running from {self.folder}. End it there, or give another --state and --port."
            ) from error
        self._require_free_port()
        if "REDIS_URL" not in os.environ:
            self.valkey = Valkey(self.folder / "valkey", password=self.secret("broker"))

        for inside in (self.logs, self.folder / "storage"):
            inside.mkdir(exist_ok=True)
            inside.chmod(0o700)

    def _require_free_port(self) -> None:
        """Before anything is started: a stranger's answer on our port would pass for ours."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError as error:
                raise AlreadyRunning(
                    f"Port {self.port} of this machine is taken ({error.strerror}). Give another: PORT={self.port + 1}"
                ) from error

    def secret(self, name: str) -> str:
        """Drawn once, kept in a file that only its owner reads."""
        path = self.folder / f"{name}-secret"
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32))
        return path.read_text()

    def environment(self) -> dict[str, str]:
        """Of every process of ours. The worker gets its own, without the database (`worker_environment`)."""
        environment = dict(os.environ)
        environment.update(
            DJANGO_SETTINGS_MODULE="fuseworks.settings.embedded",
            FUSEWORKS_STATE=str(self.folder),
            FUSEWORKS_PUBLIC_URL=self.url,
            FUSEWORKS_WORKER_TOKEN=self.secret("worker"),
            PYTHONPATH=os.pathsep.join(str(ROOT / part) for part in (".", "platform", "client")),
            PYTHONUNBUFFERED="1",
        )
        if self.postgres is not None:
            environment["DATABASE_URL"] = self.postgres.url(DATABASE)
        if self.valkey is not None:
            environment["REDIS_URL"] = self.valkey.url
        return environment

    def worker_environment(self, number: int) -> dict[str, str]:
        environment = self.environment()
        for name in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "FUSEWORKS_SECRET_KEY"):
            environment.pop(name, None)
        environment.update(
            FUSEWORKS_WORKER_API_URL=self.url,
            FUSEWORKS_WORKER_NAME=f"{os.uname().nodename}-cpu-{number}",
            FUSEWORKS_TARGET="cpu",
            FUSEWORKS_WORKER_SCRATCH=str(self.folder / "scratch"),
            FUSEWORKS_DEVICE_LOCKS=str(self.folder / "device-locks"),
        )
        return environment

    def manage(self, *arguments: str) -> str:
        """Runs a Django command. Raises ServerFailed with what it said."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            env=self.environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise ServerFailed(f"manage.py {arguments[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout

    def prepare(self) -> None:
        """The database's tables and, on the very first start, the sample teams."""
        if self.postgres is not None:
            self.postgres.ensure_database(DATABASE)
        self.manage("migrate", "--no-input")
        said = self.manage("samples", "--file", str(self.sign_in_file))
        self.has_samples = said.splitlines()[-1:] == ["sample teams"]

    @property
    def sign_in_file(self) -> Path:
        return self.folder / "sign-in.json"

    def sign_in(self) -> dict[str, Any]:
        """What `manage.py samples` left: people with their passwords, and the API token of the demo. Empty for a
        database that has no sample teams, or whose file is lost."""
        if not self.has_samples:
            return {}
        known: dict[str, Any] = json.loads(self.sign_in_file.read_text())
        return known

    def how_to_sign_in(self) -> str:
        known = self.sign_in()
        if not known:
            return "    Sign in with an account of your own (this installation has no sample teams)."
        lines = [f"    {p['email']:42} {p['role']} of {p['team']} ({p['business_unit']})" for p in known["people"]]
        return "\n".join([f"    Sign in as one of these, password {known['password']}", *lines])
