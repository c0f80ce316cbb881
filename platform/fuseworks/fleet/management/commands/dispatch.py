"""`manage.py dispatch`: sends waiting runs to workers, and ends what fell silent. SIGTERM and Ctrl-C end it cleanly.

Start as many as you like: one is at work, the others stand by and take over within a second or two.
"""

from __future__ import annotations

import logging
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from fuseworks.fleet.dispatcher import Dispatcher
from fuseworks.fleet.sender import Broker
from fuseworks.registry.services import clean


class Command(BaseCommand):
    help = "Sends waiting runs to workers, and ends what fell silent."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.REDIS_URL:
            raise CommandError("Set REDIS_URL: the broker, redis://host:6379/0")
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("fuseworks").setLevel(logging.INFO)
        dispatcher = Dispatcher(Broker().send, lambda: clean(timezone.now()), on_lead=self._told)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, dispatcher.stop)
        dispatcher.run()
        self.stdout.write("the dispatcher has ended")

    def _told(self, leads: bool) -> None:
        self.stdout.write("dispatching" if leads else "standing by")
        self.stdout.flush()
