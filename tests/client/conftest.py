"""The real command in a process of its own, over a stand-in for the optimizer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.optimizer.reporting.sample import document

if TYPE_CHECKING:
    from tests.client.site import Site

ROOT = Path(__file__).parents[2]


@dataclass
class Command:
    """`fuseworks` in `folder`."""

    folder: Path
    environment: dict[str, str]

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "fuseworks_client", *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # started in the background of a script, a process inherits an ignored interrupt, and so would its children
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **environment)
        out, error = process.communicate(stdin, timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def model(self, behaviour: str, name: str = "model.py") -> str:
        (self.folder / name).write_text(behaviour)
        return name


@pytest.fixture
def fuseworks(tmp_path: Path) -> Command:
    (tmp_path / "fake.json").write_text(json.dumps(document()))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'client'}",
        "LANG": "C.UTF-8",
        "COLUMNS": "160",
        "TMPDIR": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "FAKE_RESULT": str(tmp_path / "fake.json"),
        "FUSEWORKS_OPTIMIZER": f"{sys.executable} {ROOT / 'tests/client/fake_optimizer.py'}",
    }
    return Command(tmp_path, environment)


@pytest.fixture
def site(live_server: Any, fuseworks: Command, settings: Any, tmp_path: Path) -> Iterator[Site]:
    """The real web site, a team in it, and somebody who plays the worker; the command is signed in."""
    from tests.client.site import Site  # Django is only needed here

    settings.STORAGE = tmp_path / "storage"
    with Site.opened(live_server.url) as site:
        fuseworks.environment |= {"FUSEWORKS_URL": site.url, "FUSEWORKS_TOKEN": site.token, "FUSEWORKS_RETRY_S": "5"}
        yield site
