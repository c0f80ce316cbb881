"""The test suite: no debug pages, nothing written outside of the tests' own folders."""

from __future__ import annotations

from fuseworks.settings.base import *  # noqa: F403

ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
SECRET_KEY = "only-for-tests-and-never-a-secret-anywhere"
