"""The doorbell: one message to the broker's queue of a target. It is tried once; the database knows what to send again.

Nobody but the dispatcher sends. Each message goes over a connection of its own: one a run is cheap, and one that a
restarted broker has forgotten is never used.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery
from django.conf import settings
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import RedisError

from workers.messages import TASK, TRANSPORT, RunMessage, queue_of

ANSWER_WITHIN_S = 2
log = logging.getLogger(__name__)


class BrokerDown(Exception):
    """The message was not sent, as far as can be known."""


def sender(broker_url: str) -> Celery:
    """A Celery app that only sends. Without `max_retries: 0` kombu would sleep and try again, which is ours to do; a
    broker that takes the connection and answers nothing must not hold up the reaping between two sends."""
    app = Celery("fuseworks-dispatcher", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        task_publish_retry=False,
        task_serializer="json",
        broker_connection_timeout=2,
        broker_transport_options={**TRANSPORT, "socket_timeout": ANSWER_WITHIN_S, "max_retries": 0},
    )
    return app


class Broker:
    """Sends to the broker of the settings, or to the one given."""

    def __init__(self, url: str | None = None) -> None:
        self._app = sender(url or settings.REDIS_URL)

    def send(self, message: RunMessage, target: str) -> None:
        """Raises BrokerDown."""
        try:
            with self._app.connection_for_write() as connection:
                self._app.send_task(TASK, connection=connection, **_envelope(message, target))
        except (OperationalError, KombuError, RedisError, OSError) as error:
            raise BrokerDown(f"{type(error).__name__}: {error}") from error


def _envelope(message: RunMessage, target: str) -> dict[str, Any]:
    # argsrepr: Celery would otherwise write the arguments, the token among them, into the message's headers.
    return {
        "kwargs": message.wire(),
        "queue": queue_of(target),
        "retry": False,
        "ignore_result": True,
        "argsrepr": "()",
        "kwargsrepr": f"{{run_id: {message.run_id}, attempt: {message.attempt}}}",
    }
