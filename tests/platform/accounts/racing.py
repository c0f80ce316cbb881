"""Several people who do something at the same moment, each on a connection of his own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread

from django.db import connection

from fuseworks.core.errors import PlatformError

WAIT_S = 60


def refusals_at_once(*works: Callable[[], object]) -> list[str]:
    """The ids of the errors with which some of them were refused."""
    barrier, refused = Barrier(len(works)), []

    def at_once(work: Callable[[], object]) -> None:
        try:
            barrier.wait(timeout=WAIT_S)
            work()
        except PlatformError as error:
            refused.append(error.id)
        finally:
            connection.close()

    threads = [Thread(target=at_once, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=WAIT_S)
    return refused
