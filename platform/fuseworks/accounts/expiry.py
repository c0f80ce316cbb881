"""What is remembered of sign-ins, and for how long: sessions until they end, tries at a password for SIGN_INS_KEPT.

Django and axes write a row for each and never remove one. The audit log, which tells of what was changed, is kept.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.sessions.models import Session
from django.db.models import QuerySet

SIGN_INS_KEPT = timedelta(days=90)


def sessions_over(now: datetime) -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=now)


def sign_ins_old(now: datetime) -> list[QuerySet[AccessAttempt | AccessFailureLog | AccessLog]]:
    before = now - SIGN_INS_KEPT
    return [kind.objects.filter(attempt_time__lt=before) for kind in (AccessAttempt, AccessFailureLog, AccessLog)]
