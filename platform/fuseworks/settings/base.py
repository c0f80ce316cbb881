"""What every installation shares. Its servers come by `DATABASE_URL`, `REDIS_URL` and `FUSEWORKS_STORAGE`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from fuseworks.settings.environment import database, mail_security, number, text, words

ROOT = Path(__file__).resolve().parents[3]
FRONTEND = ROOT / "frontend"
STATE = Path(text("FUSEWORKS_STATE", str(ROOT / ".fuseworks")))

DEBUG = False
ALLOWED_HOSTS: list[str] = []

INSTALLED_APPS = [
    "whitenoise.runserver_nostatic",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_vite",
    "axes",
    "fuseworks.core",
    "fuseworks.accounts",
    "fuseworks.registry",
    "fuseworks.runs",
    "fuseworks.results",
    "fuseworks.traces",
    "fuseworks.recipes",
    "fuseworks.gates",
    "fuseworks.fleet",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "fuseworks.core.middleware.PageHeadersMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "fuseworks.core.middleware.PlatformErrorMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "fuseworks.urls"
ASGI_APPLICATION = "fuseworks.asgi.application"
WSGI_APPLICATION = "fuseworks.wsgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FRONTEND / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "fuseworks.core.context.site",
            ]
        },
    }
]
DATABASES: dict[str, Any] = {"default": database("DATABASE_URL")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign_in"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "fuseworks.core.error_pages.form_expired"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_USERNAME_FORM_FIELD = "username"
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "fuseworks.accounts.lockout.locked_out"

STATIC_URL = "/static/"
STATIC_ROOT = STATE / "static"
FRONTEND_BUILT = (FRONTEND / "dist" / "manifest.json").is_file()
STATICFILES_DIRS = [FRONTEND / "static", *([FRONTEND / "dist"] if FRONTEND_BUILT else [])]
WHITENOISE_USE_FINDERS = True
# Vite names what it builds by content: a browser may keep it for ever.
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/assets/.+-[\w-]{8}\.\w+$"
DJANGO_VITE = {"default": {"manifest_path": FRONTEND / "dist" / "manifest.json"}}
SILENCED_SYSTEM_CHECKS = ["django_vite.W001"]  # fuseworks.W001 says what to do about it

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [FRONTEND / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True

X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"

# A body is streamed to a file by the uploads' endpoint; everything else is small.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 << 20
# Files of forms wait here, whole, before a view sees them. On a disk: /tmp may be memory.
FILE_UPLOAD_TEMP_DIR: str | None = str(STATE / "spool")

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "fuseworks.accounts.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["fuseworks.core.parsers.BoundedJSONParser"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "fuseworks.core.pagination.Pagination",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "fuseworks.core.problems.exception_handler",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Fuseworks",
    "DESCRIPTION": _("Uploads, runs, results and recipes for CI pipelines and scripts."),
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "fuseworks.core.openapi.errors_are_problems",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # A choice's name in the document; without, two fields called `state` would be told apart by a digest.
    "ENUM_NAME_OVERRIDES": {
        "RunStatus": "fuseworks.runs.models.Status",
        "RunPurpose": "fuseworks.runs.models.Purpose",
        "TeamRole": "fuseworks.accounts.models.Role",
        "TokenScope": "fuseworks.accounts.models.Scope",
        "RecipeState": "fuseworks.recipes.models.RecipeState",
        "RecipeVisibility": "fuseworks.recipes.models.Visibility",
        "GateOutcome": "fuseworks.gates.models.Outcome",
        "UploadFormat": "fuseworks.registry.models.Format",
        "WorkloadSource": "fuseworks.registry.models.WorkloadSource",
    },
}

# The broker is a doorbell: the database is the truth.
REDIS_URL = text("REDIS_URL", "")

# Where files lie: a folder, which all web processes share.
STORAGE = Path(text("FUSEWORKS_STORAGE", str(STATE / "storage")))
STORAGES = {
    "default": {"BACKEND": "fuseworks.core.storage.SharedFolder"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
MAX_UPLOAD_BYTES = number("FUSEWORKS_MAX_UPLOAD_BYTES", 8 << 30)
# Of one file that a run leaves; only a package comes near it. The proxy's own limit is the same.
MAX_ARTIFACT_BYTES = number("FUSEWORKS_MAX_ARTIFACT_BYTES", 16 << 30)
TEAM_QUOTA_BYTES = number("FUSEWORKS_TEAM_QUOTA_BYTES", 100 << 30)
UPLOAD_EXPIRES_HOURS = number("FUSEWORKS_UPLOAD_EXPIRES_HOURS", 24)
# Days after which the files of versions that no run used are deleted; 0 keeps them.
RETENTION_DAYS = number("FUSEWORKS_RETENTION_DAYS", 0)
# Days after which a run that is over loses its events, report, samples and log; 0 keeps them.
RUN_FILES_DAYS = number("FUSEWORKS_RUN_FILES_DAYS", 365)

# What workers are told and how long their silence is borne.
PUBLIC_URL = text("FUSEWORKS_PUBLIC_URL", "http://127.0.0.1:8000")
WORKER_API_URL = text("FUSEWORKS_WORKER_API_URL", PUBLIC_URL)
WORKER_TOKEN = text("FUSEWORKS_WORKER_TOKEN", "")
LEASE_S = number("FUSEWORKS_LEASE_S", 60)
CLAIM_WITHIN_S = number("FUSEWORKS_CLAIM_WITHIN_S", 120)
MAX_ATTEMPTS = number("FUSEWORKS_MAX_ATTEMPTS", 3)
# Of work, for one run; a run may ask for less. Above the budget, for what a run needs beside it.
RUN_TIME_LIMIT_S = number("FUSEWORKS_RUN_TIME_LIMIT_S", 7200)
# An inspection's budget, and what its model's own code may take to be captured (time for its weights comes on top): one
# that loops must not hold the only worker.
INSPECT_BUDGET_S = number("FUSEWORKS_INSPECT_BUDGET_S", 120)

EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
EMAIL_HOST = text("FUSEWORKS_EMAIL_HOST", "")
if EMAIL_HOST:
    EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_PORT, EMAIL_USE_TLS, EMAIL_USE_SSL = mail_security("FUSEWORKS_EMAIL_TLS", "FUSEWORKS_EMAIL_PORT")
EMAIL_HOST_USER = text("FUSEWORKS_EMAIL_USER", "")
EMAIL_HOST_PASSWORD = text("FUSEWORKS_EMAIL_PASSWORD", "")
if EMAIL_HOST_PASSWORD and not (EMAIL_USE_TLS or EMAIL_USE_SSL):
    raise ImproperlyConfigured("FUSEWORKS_EMAIL_PASSWORD would go over the network in clear: set FUSEWORKS_EMAIL_TLS")
EMAIL_TIMEOUT = 10  # seconds; a request waits for it
DEFAULT_FROM_EMAIL = text("FUSEWORKS_EMAIL_FROM", "fuseworks@localhost")

# Services beside the web process that the health page tries to reach: `name=host:port`, several with commas.
HEALTH_SERVICES = words("FUSEWORKS_HEALTH_SERVICES")
