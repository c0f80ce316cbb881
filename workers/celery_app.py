"""The Celery app of a worker. The broker is a doorbell: what it loses, doubles or delays does no harm.

The solo pool: the run is worked in the worker's own process.
- It holds one message at a time: nothing is fetched while a run is worked. With early acknowledgement a pool with
  processes fetches the next message meanwhile, and that run waits here while other workers idle.
- `kill -9` of the worker ends the process that renews the lease and holds the lifeline of the run's keeper. A pool's
  process would outlive its parent and go on.
- A task that kills its process kills the worker: whoever supervises it starts it again, and the run's lease decides.
While a run is worked the process answers neither pings nor remote control; `worker/alive/` tells the platform of it.
"""

from __future__ import annotations

from celery import Celery

from workers.messages import TRANSPORT, queue_of
from workers.settings import Settings

app = Celery("fuseworks", set_as_current=False, include=["workers.tasks"])
app.conf.update(
    task_acks_late=False,
    task_ignore_result=True,
    task_publish_retry=False,
    task_serializer="json",
    accept_content=["json"],
    worker_pool="solo",
    worker_concurrency=1,
    # No limit, for the pool is one. With a limit of 1 a worker goes deaf for good when the broker was away in a run:
    # the acknowledgement, which Celery sends after the run here, fails, and the message counts as fetched for ever.
    worker_prefetch_multiplier=0,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    # Zero: it would sleep in the one thread, which works the run. SIGTERM gives the run back at once (workers.work).
    worker_soft_shutdown_timeout=0,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    worker_cancel_long_running_tasks_on_connection_loss=True,  # none runs then; unset, Celery warns of it
    broker_transport_options=TRANSPORT,
)


def configure(settings: Settings) -> Celery:
    """Gives the app its broker and its queue, the target's."""
    app.conf.update(broker_url=settings.redis_url, task_default_queue=queue_of(settings.target))
    return app
