"""The traces app."""

from __future__ import annotations

from django.apps import AppConfig


class TracesConfig(AppConfig):
    name = "fuseworks.traces"
    label = "traces"
