"""The fleet app."""

from __future__ import annotations

from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "fuseworks.fleet"
    label = "fleet"
