"""The demo: a model goes in by the public API, as a member of a sample team would send it; the command follows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from fuseworks.embedded.installation import ROOT, Installation
from fuseworks.embedded.supervisor import Supervisor

POLL_S = 0.2


def run_demo(installation: Installation, supervisor: Supervisor, model: Path, budget: str, out: Path | None) -> int:
    """The exit code of `fuseworks submit --wait`. Raises ChildEnded when the platform dies under it."""
    known = installation.sign_in()["demo"]
    print(f"==> Uploading {model} as {known['email']} of {known['team']}, with a budget of {budget}.", flush=True)
    command = [sys.executable, "-m", "fuseworks_client", "submit", str(model), "--wait", "--team", known["team"]]
    command += ["--budget", budget, *(["--out", str(out)] if out is not None else [])]
    environment = {**os.environ, "FUSEWORKS_URL": installation.url, "FUSEWORKS_TOKEN": known["token"]}
    environment["PYTHONPATH"] = str(ROOT / "client")
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        while process.poll() is None:
            supervisor.check()
            time.sleep(POLL_S)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait()
    return process.returncode
