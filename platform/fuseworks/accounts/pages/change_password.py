"""Change the password, knowing the old one. Other sessions of the account end; this one goes on under a new id."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import PasswordChangeView
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from fuseworks.accounts import services
from fuseworks.accounts.forms import ChangePasswordForm
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page

form_only = require_http_methods(["GET", "HEAD", "POST"])


class ChangePassword(PasswordChangeView):
    template_name = "accounts/change_password.html"
    form_class = ChangePasswordForm
    success_url = reverse_lazy("profile")

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        with transaction.atomic():
            response = super().form_valid(form)
            services.note_password_change(
                actor=actor_of(self.request), how="change", revoke_tokens=form.cleaned_data["revoke_tokens"]
            )
        messages.success(self.request, _("Your password is changed. You are signed out everywhere else."))
        return response


change_password = page("change-password/", title=_("Change password"), name="change_password")(
    form_only(ChangePassword.as_view())
)
