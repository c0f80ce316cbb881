"""The accounts app; loading it tells the API's description how tokens are sent."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "fuseworks.accounts"
    label = "accounts"

    def ready(self) -> None:
        from fuseworks.accounts import openapi  # noqa: F401  (importing registers)
