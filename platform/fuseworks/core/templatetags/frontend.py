"""`{% load frontend %}`: the built scripts and styles, and which page of the menu is open.

Pages work unstyled without the build; `{% entry %}` then says so where a reader of the page's source looks first, and
the system check `fuseworks.W001` says it to the operator.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django_vite.templatetags.django_vite import vite_asset

register = template.Library()

NOT_BUILT = "<!-- The front end is not built: run `make frontend` and start the site again. -->"


@register.simple_tag
def entry(path: str) -> SafeString:
    """The tags that load an entry of the front end, as `src/main.ts`, with its styles."""
    if not settings.FRONTEND_BUILT:
        return mark_safe(NOT_BUILT)
    return SafeString(vite_asset(path))


@register.simple_tag(takes_context=True)
def is_open(context: dict[str, Any], name: str) -> bool:
    """Whether the page called `name`, or one below its address, is the one that is shown."""
    request = context.get("request")
    if request is None:
        return False
    address = reverse(name)
    return bool(request.path == address or (address != "/" and request.path.startswith(address)))
