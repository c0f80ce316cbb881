"""The gates app."""

from __future__ import annotations

from django.apps import AppConfig


class GatesConfig(AppConfig):
    name = "fuseworks.gates"
    label = "gates"
