"""`python -m workers`: starts one worker, which works one run at a time. Settings: `workers/settings.py`.

Refuses to start where no sandbox or no optimizer works: every run would fail here. Where Celery ends by itself (on a
message that is no JSON, for one), the process starts anew in its place. Exit codes: 0 ended by a signal, 3 the
machine's fault, 64 usage.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
import warnings
from typing import Any

from celery import signals

from optimizer.errors import FuseworksError
from optimizer.sandbox.choose import choose
from workers import manifest, noise_floor, redaction, scratch
from workers.api import FleetApi
from workers.celery_app import configure
from workers.duty import duty
from workers.hello import Presence
from workers.http import Http
from workers.messages import queue_of
from workers.settings import Settings, SettingsError, from_environment

EXIT_OURS, EXIT_USAGE = 3, 64
PAUSE_S = 1.0
log = logging.getLogger("workers")


def main() -> int:
    try:
        settings = from_environment()
    except SettingsError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s: %(levelname)s] %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each heartbeat
    try:
        found = _prepared(settings)
    except (OSError, FuseworksError, manifest.NoOptimizer) as error:
        print(f"This worker cannot work: {error}\n{getattr(error, 'remedy', '')}".rstrip(), file=sys.stderr)
        return EXIT_OURS
    with Http(settings.api, settings.token) as http:
        fleet = FleetApi(http, name=settings.name, host=settings.host, target=settings.target)
        presence = Presence(fleet, found, lambda: noise_floor.recall(settings.scratch, settings.name))
        duty.take(settings, presence.end)
        was_ready = _serve(settings, presence)
    if duty.is_stopping():
        return 0
    if not was_ready:
        return EXIT_OURS
    log.error("Celery ended by itself: this worker starts anew")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(PAUSE_S)
    os.execv(sys.executable, sys.orig_argv)


def _prepared(settings: Settings) -> dict[str, Any]:
    """Takes away what a killed worker left; the manifest. Raises OSError, FuseworksError, NoOptimizer."""
    removed = scratch.sweep(settings.scratch)
    if removed:
        log.info("removed the folders of %d runs that were cut off", removed)
    log.info("sandbox: %s", choose())
    return manifest.ask(settings)


def _serve(settings: Settings, presence: Presence) -> bool:
    """Blocks until a signal ends the worker, or Celery itself. Whether it was ever ready for runs."""
    was_ready = False

    def ready(**_: object) -> None:
        nonlocal was_ready
        was_ready = True
        presence.start()

    def shutting_down(**_: object) -> None:
        duty.stop()

    def shut_down(**_: object) -> None:
        presence.end()

    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutting_down.connect(shutting_down, weak=False)
    signals.worker_shutdown.connect(shut_down, weak=False)
    # root is wanted where there is one: each sandboxed child drops to a uid of its own; and messages are JSON only
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    redaction.install()
    arguments = ["--quiet", "worker", "--pool=solo", "--concurrency=1", "--loglevel=INFO", "--without-gossip"]
    arguments += ["--without-mingle", "--without-heartbeat"]
    arguments += [f"--queues={queue_of(settings.target)}", f"--hostname={_node(settings)}"]
    with contextlib.suppress(SystemExit):
        configure(settings).worker_main(arguments)
    return was_ready


def _node(settings: Settings) -> str:
    """Celery's own name of it, for its log."""
    return f"{settings.target.replace(':', '-')}-{os.getpid()}@{settings.host}"


if __name__ == "__main__":
    sys.exit(main())
