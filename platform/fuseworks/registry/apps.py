"""The registry app."""

from __future__ import annotations

from django.apps import AppConfig


class RegistryConfig(AppConfig):
    name = "fuseworks.registry"
    label = "registry"
