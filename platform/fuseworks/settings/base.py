"""What every installation shares. Database, accounts and storage come with the apps that need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fuseworks.settings.environment import words

ROOT = Path(__file__).resolve().parents[3]
FRONTEND = ROOT / "frontend"

DEBUG = False
ALLOWED_HOSTS: list[str] = []

INSTALLED_APPS = ["whitenoise.runserver_nostatic", "django.contrib.staticfiles", "fuseworks.core"]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "fuseworks.core.middleware.PageHeadersMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "fuseworks.urls"
ASGI_APPLICATION = "fuseworks.asgi.application"
WSGI_APPLICATION = "fuseworks.wsgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [FRONTEND / "templates"], "APP_DIRS": False}
]
DATABASES: dict[str, Any] = {}

STATIC_URL = "/static/"
STATICFILES_DIRS = [FRONTEND / "static"]
WHITENOISE_USE_FINDERS = True

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"

# Services beside the web process that the health page tries to reach: `name=host:port`, several with commas.
HEALTH_SERVICES = words("FUSEWORKS_HEALTH_SERVICES")
