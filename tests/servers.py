"""Starts a PostgreSQL and a Valkey for the tests, before Django reads its settings. Loaded by `-p tests.servers`.

One server of each for all workers of pytest-xdist, which inherit the addresses; each has a database of its own. Set
DATABASE_URL and REDIS_URL to test on servers of your own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fuseworks.embedded.postgres import Postgres
from fuseworks.embedded.valkey import Valkey

_started: list[Postgres | Valkey] = []
_folders: list[Path] = []


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if "DATABASE_URL" not in os.environ:
        postgres = Postgres(_folder() / "postgres", durable=False)
        postgres.start()
        _started.append(postgres)
        os.environ["DATABASE_URL"] = postgres.url("postgres")
    if "REDIS_URL" not in os.environ:
        valkey = Valkey(_folder() / "valkey")
        valkey.start()
        _started.append(valkey)
        os.environ["REDIS_URL"] = valkey.url


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fuseworks-tests-"))
    folder.chmod(0o711)  # PostgreSQL drops root and must reach its own folder in here
    _folders.append(folder)
    return folder


def pytest_unconfigure() -> None:
    while _started:
        _started.pop().stop()
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)
