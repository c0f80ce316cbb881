"""The demo: a model goes in by the public API, as a member of a sample team would send it; the command follows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fuseworks.embedded.installation import ROOT, Installation
from fuseworks.embedded.supervisor import Supervisor

POLL_S = 0.2


class NoSampleTeams(RuntimeError):
    """There is nobody in whose name the demo could upload; the text says what to do."""


def sample_member(installation: Installation) -> dict[str, Any]:
    """Who the demo is. Raises NoSampleTeams."""
    known = installation.sign_in()
    if known:
        member: dict[str, Any] = known["demo"]
        return member
    if installation.postgres is None:
        where, remedy = "the database of DATABASE_URL has", "unset DATABASE_URL, or name an empty database"
    else:
        where, remedy = f"the installation in {installation.folder} has", "give another folder: FUSEWORKS_STATE=FOLDER"
    raise NoSampleTeams(
        f"The demo uploads as a member of a sample team, and {where} accounts of its own: "
        f"{installation.sign_in_file} does not tell how to sign in to it.\n"
        f"For the demo, {remedy}. To use what is there, start it with `make run`, make an API token on your tokens "
        f"page, and run: FUSEWORKS_URL={installation.url} FUSEWORKS_TOKEN=... fuseworks submit MODEL --wait --team TEAM"
    )


def run_demo(installation: Installation, supervisor: Supervisor, model: Path, budget: str, out: Path | None) -> int:
    """The exit code of `fuseworks submit --wait`. Raises NoSampleTeams, and ChildEnded when the platform dies."""
    known = sample_member(installation)
    print(f"==> Uploading {model} as {known['email']} of {known['team']}, with a budget of {budget}.", flush=True)
    command = [sys.executable, "-m", "fuseworks_client", "submit", str(model), "--wait", "--team", known["team"]]
    command += ["--budget", budget, *(["--out", str(out)] if out is not None else [])]
    environment = {**os.environ, "FUSEWORKS_URL": installation.url, "FUSEWORKS_TOKEN": known["token"]}
    environment["PYTHONPATH"] = str(ROOT / "client")
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        while process.poll() is None:
            supervisor.check(process)
            time.sleep(POLL_S)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait()
    return process.returncode
