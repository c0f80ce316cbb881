"""System checks of Fuseworks (`manage.py check`). Ids: `fuseworks.E...` stops, `fuseworks.W...` warns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

FORBIDDEN = ("torch", "triton")


@register(Tags.compatibility)
def the_web_process_holds_no_engine(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """A web process that imports torch has a gigabyte too much memory and an upload too near."""
    return [
        Error(f"{name} is imported in the web process", hint="Only children of a run import it.", id="fuseworks.E001")
        for name in FORBIDDEN
        if name in sys.modules
    ]


@register(Tags.files)
def the_source_root_shadows_nothing(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """`platform/__init__.py` would replace the standard library's `platform` in every process."""
    guilty = Path(settings.ROOT) / "platform" / "__init__.py"
    if guilty.exists():
        return [Error(f"{guilty} replaces the standard library's platform", hint="Remove it.", id="fuseworks.E002")]
    return []


@register(Tags.files)
def the_templates_are_there(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """The site runs from a checkout: an installed wheel has no frontend/."""
    folder = Path(settings.FRONTEND) / "templates"
    if not folder.is_dir():
        return [Error(f"{folder} is missing", hint="Run the site from a checkout.", id="fuseworks.E003")]
    return []


@register(Tags.files)
def the_front_end_is_built(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Without it pages work and look bare; nothing is live on them."""
    if settings.FRONTEND_BUILT:
        return []
    return [
        Warning(
            "the front end is not built: pages have no style and nothing on them is live",
            hint="Run `make frontend` and start the site again.",
            id="fuseworks.W001",
        )
    ]
