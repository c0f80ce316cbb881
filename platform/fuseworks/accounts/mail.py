"""E-mail to people: sent beside the request, since how long a mail server takes would tell whether an address is known.

Where no mail server is set nothing is sent: the console would only put links that are secrets into a log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template import loader
from django.utils import translation

log = logging.getLogger(__name__)

UNSENT = {"django.core.mail.backends.console.EmailBackend", "django.core.mail.backends.dummy.EmailBackend"}
_sender = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")


def configured() -> bool:
    return settings.EMAIL_BACKEND not in UNSENT


def send(*, to: str, template: str, context: dict[str, Any], language: str | None = None) -> None:
    """Sends `TEMPLATE_subject.txt` and `TEMPLATE_body.txt` some time soon; a mail server that fails is logged.

    `context` must not need the database: it is rendered in another thread.
    """
    if not configured():
        return
    chosen = language or translation.get_language() or settings.LANGUAGE_CODE
    context = {"public_url": settings.PUBLIC_URL.rstrip("/"), **context}
    later(lambda: _send(to, template, context, chosen))


def later(work: Callable[[], None]) -> None:
    _sender.submit(work)


def _send(to: str, template: str, context: dict[str, Any], language: str) -> None:
    try:
        with translation.override(language):
            subject = " ".join(loader.render_to_string(f"{template}_subject.txt", context).split())
            body = loader.render_to_string(f"{template}_body.txt", context)
        EmailMultiAlternatives(subject, body, to=[to]).send()
    except Exception:
        # Nobody waits for this thread: without the log the failure would vanish. The message itself holds a secret.
        log.exception("an e-mail could not be sent")
