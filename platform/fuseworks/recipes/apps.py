"""The recipes app."""

from __future__ import annotations

from django.apps import AppConfig


class RecipesConfig(AppConfig):
    name = "fuseworks.recipes"
    label = "recipes"
