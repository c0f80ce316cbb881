"""`GET /api/v1/docs/`: where a browser that looks for the API's reference beside the API is sent to it."""

from __future__ import annotations

from django.views.generic import RedirectView

from fuseworks.core.discovery import endpoint


@endpoint("docs/")
class Docs(RedirectView):
    pattern_name = "apidocs"
