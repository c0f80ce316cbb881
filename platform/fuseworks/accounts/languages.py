"""The language of a person's account, as the cookie that Django's LocaleMiddleware reads."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponseBase


def remember_language(response: HttpResponseBase, language: str) -> None:
    """Empty: what the browser asks for."""
    if language not in dict(settings.LANGUAGES):
        response.delete_cookie(settings.LANGUAGE_COOKIE_NAME, samesite="Lax")
        return
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        language,
        max_age=settings.SESSION_COOKIE_AGE,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
