"""PostgreSQL and Valkey out of wheels: they start, keep what they were told, and end with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis

from fuseworks.embedded.children import ServerFailed
from fuseworks.embedded.postgres import Postgres, binaries
from fuseworks.embedded.valkey import Valkey, free_port

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's own: as root PostgreSQL runs as nobody, who cannot enter root's temporary folder."""
    with tempfile.TemporaryDirectory(prefix="fuseworks-tests-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def test_postgres_keeps_rows_over_a_restart(folder: Path):
    first = Postgres(folder / "postgres")
    first.start()
    try:
        first.ensure_database("fw")
        first.ensure_database("fw")  # a second call changes nothing
        with psycopg.connect(first.url("fw")) as connection:
            connection.execute("CREATE TABLE kept (n int)")
            connection.execute("INSERT INTO kept VALUES (7)")
    finally:
        first.stop()
    second = Postgres(folder / "postgres")
    second.start()
    try:
        with psycopg.connect(second.url("fw")) as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(7,)]
    finally:
        second.stop()


def test_postgres_listens_on_no_port(folder: Path):
    postgres = Postgres(folder / "postgres", durable=False)
    postgres.start()
    try:
        assert postgres.process is not None
        kinds = {
            c.type for c in psutil.Process(postgres.process.pid).net_connections(kind="inet") if c.status == "LISTEN"
        }
        assert kinds == set()
    finally:
        postgres.stop()


def test_postgres_works_from_a_folder_whose_path_is_too_long_for_a_socket(folder: Path):
    deep = folder / ("long-" * 20) / "postgres"
    for parent in (deep.parent, *deep.parents):
        if parent.is_relative_to(folder):
            parent.mkdir(parents=True, exist_ok=True)
            parent.chmod(0o711)
    postgres = Postgres(deep, durable=False)
    postgres.start()
    try:
        assert len(str(postgres.sockets)) <= 90
        with psycopg.connect(postgres.url("postgres")) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        postgres.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused by PostgreSQL")
def test_a_folder_that_nobody_can_enter_is_named(folder: Path):
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ServerFailed, match=f"cannot enter {closed}"):
        Postgres(closed / "postgres").start()


def test_valkey_wants_its_password_and_keeps_what_was_queued(folder: Path):
    valkey = Valkey(folder / "valkey", password="s3cret")
    valkey.start()
    try:
        redis.Redis.from_url(valkey.url).rpush("queue", "a")
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=valkey.port).ping()
        assert valkey.process is not None
        assert "s3cret" not in " ".join(psutil.Process(valkey.process.pid).cmdline())
    finally:
        valkey.stop()
    again = Valkey(folder / "valkey", password="s3cret")
    again.start()
    try:
        assert redis.Redis.from_url(again.url).lrange("queue", 0, -1) == [b"a"]
    finally:
        again.stop()


def test_a_taken_port_is_told_with_the_log(folder: Path):
    first = Valkey(folder / "one")
    first.start()
    try:
        with pytest.raises(ServerFailed, match="bind"):
            Valkey(folder / "two", port=first.port).start()
    finally:
        first.stop()


def test_free_port_can_be_bound():
    assert 1024 <= free_port() <= 65535


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal on a parent's death is Linux's")
def test_servers_end_when_their_parent_is_killed(folder: Path):
    script = (
        "import sys; from pathlib import Path; from fuseworks.embedded.postgres import Postgres;"
        "from fuseworks.embedded.valkey import Valkey;"
        f"p = Postgres(Path({str(folder / 'postgres')!r}), durable=False); p.start();"
        f"v = Valkey(Path({str(folder / 'valkey')!r})); v.start();"
        "print(p.process.pid, v.process.pid, flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "platform")])}
    parent = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    servers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(servers) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    _, alive = psutil.wait_procs(servers, timeout=30)
    assert alive == []


def test_a_cluster_whose_making_was_interrupted_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Half a cluster has its PG_VERSION already, and no server starts from it."""

    wait = subprocess.Popen.wait
    waits: list[int] = []

    def interrupted(process: subprocess.Popen[bytes], *rest: Any) -> int:
        waits.append(process.pid)
        if len(waits) > 1:
            return wait(process, *rest)
        while not (folder / "data.new" / "PG_VERSION").exists():
            assert process.poll() is None
        raise KeyboardInterrupt

    postgres = Postgres(folder, durable=False)
    programs = binaries()
    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            postgres._initialise(programs)
    assert not psutil.pid_exists(waits[0])
    assert not postgres.data.exists()
    postgres.start()
    try:
        with psycopg.connect(postgres.url("postgres")) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        postgres.stop()
