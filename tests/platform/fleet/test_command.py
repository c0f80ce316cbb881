"""`manage.py dispatch` as a process of its own: it says when it leads, and ends cleanly by SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 60.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.django_db(transaction=True)
def test_it_says_when_it_dispatches_and_ends_with_0(number: signal.Signals, tmp_path: Path) -> None:
    parts = connection.get_connection_params()
    url = f"host={parts['host']} dbname={parts['dbname']} user={parts['user']}"
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "fuseworks.settings.testing",
        "FUSEWORKS_STATE": str(tmp_path),
    }
    process = subprocess.Popen(
        [sys.executable, ROOT / "manage.py", "dispatch"], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        output: IO[str] | None = process.stdout
        assert output is not None
        assert output.readline() == "dispatching\n"
        process.send_signal(number)
        rest, _ = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    assert (rest, process.returncode) == ("the dispatcher has ended\n", 0)


def test_it_refuses_without_a_broker_and_says_how_to_name_one(settings: Any) -> None:
    settings.REDIS_URL = ""
    with pytest.raises(CommandError) as caught:
        call_command("dispatch")
    assert "REDIS_URL" in str(caught.value)
