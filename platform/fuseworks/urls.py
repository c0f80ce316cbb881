"""The site's addresses: every page that a module of an app's `pages/` registered. Nothing is listed here by hand."""

from __future__ import annotations

from fuseworks.core.discovery import pages

urlpatterns = [page.pattern() for page in pages()]
