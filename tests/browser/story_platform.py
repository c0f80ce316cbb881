"""One whole platform as `make run` starts it, with a coordinator of the test's choice. Nothing of it is left behind."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browser import story_coordinator
from tests.embedded.test_supervisor import READY, Platform

STAND_IN = shlex.join([sys.executable, "-S", story_coordinator.__file__])
END_S = 60


@dataclass(frozen=True)
class Site:
    """`owners`: the e-mail address of each sample team's owner, by the team's slug. All have one password."""

    url: str
    folder: Path
    password: str
    owners: dict[str, str]

    def release(self, purpose: str, stem: str) -> None:
        """Lets the stand-in's run on the upload `stem.*` go on to its end."""
        story_coordinator.release(self.folder, purpose, stem)


@contextmanager
def platform(coordinator: str | None = STAND_IN) -> Iterator[Site]:
    """None: the real coordinator."""
    with tempfile.TemporaryDirectory(prefix="fuseworks-story-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL drops root and must reach its own folder in here
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(story_coordinator.FOLDER, name)
            if coordinator is None:
                environment.delenv("FUSEWORKS_COORDINATOR", raising=False)
            else:
                environment.setenv("FUSEWORKS_COORDINATOR", coordinator)
            running = Platform(folder / "state")
        try:
            running.until(READY)
            known = json.loads((folder / "state" / "sign-in.json").read_text())
            owners = {person["team"]: person["email"] for person in known["people"] if person["role"] == "owner"}
            yield Site(f"http://127.0.0.1:{running.port}", folder, known["password"], owners)
        finally:
            running.process.send_signal(signal.SIGTERM)
            running.process.wait(END_S)
