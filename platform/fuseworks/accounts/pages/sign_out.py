"""Sign out: by a form only, so that no foreign page can do it."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.utils.translation import gettext_lazy as _

from fuseworks.core.discovery import page

sign_out = page("sign-out/", title=_("Sign out"), name="sign_out", public=True)(LogoutView.as_view())
