"""Keeps tokens out of Celery's log: of a message that it cannot place, Celery prints the whole body."""

from __future__ import annotations

import logging
import re

TOKEN = re.compile(r"""(token[\\'"]*\s*:\s*[\\'"]*)[^\\'",}\s]+""")
PRINTS_BODIES = ("celery.worker.consumer.consumer", "celery.worker.strategy", "celery.app.trace")


class Redaction(logging.Filter):
    """Lets every record pass, without the value of any field called `token`."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "token" in text:
            record.msg, record.args = TOKEN.sub(r"\1(not shown)", text), ()
        return True


def install() -> None:
    for name in PRINTS_BODIES:
        logging.getLogger(name).addFilter(Redaction())
