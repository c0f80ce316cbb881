"""Every test of the registry has a storage of its own; those of pages share a team, its maintainer and a version."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from django.db import connections
from django.test import Client

from fuseworks.accounts.models import Team
from fuseworks.registry.models import ModelVersion
from tests.platform import factories
from tests.platform.registry.helpers import INSPECTION, SOURCE, wait_for


@pytest.fixture(autouse=True)
def storage(storage: Path) -> Path:
    return storage


@pytest.fixture
def asgi(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the site as it is served: `fuseworks.asgi` under uvicorn."""
    from fuseworks.asgi import application

    # its threads must not keep connections to a database that the tests drop
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture
def client(team: Team) -> Client:
    return factories.client_for(factories.make_member(team, "maintainer"))


@pytest.fixture
def version(team: Team) -> ModelVersion:
    version = factories.make_version(factories.make_model(team, "DIN"), data=SOURCE)
    version.inspection = INSPECTION
    version.save()
    return version
