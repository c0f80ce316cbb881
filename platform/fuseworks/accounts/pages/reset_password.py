"""Reset a forgotten password by a link in an e-mail: ask for it, "it is on its way", set the new one.

Whether an address has an account is not told: the same answer, after the same work. Where no mail server is set the
page says how the operator helps.
"""

from __future__ import annotations

from typing import Any

from axes.utils import reset as forget_failures
from django.contrib import messages
from django.contrib.auth.views import PasswordResetConfirmView, PasswordResetDoneView, PasswordResetView
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_safe

from fuseworks.accounts import mail, services
from fuseworks.accounts.forms import ResetConfirmForm, ResetPasswordForm
from fuseworks.accounts.permissions import Actor, address_of
from fuseworks.core.discovery import page

form_only = require_http_methods(["GET", "HEAD", "POST"])


class ResetPassword(PasswordResetView):
    template_name = "accounts/reset_password.html"
    form_class = ResetPasswordForm
    success_url = reverse_lazy("reset_password_sent")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs, mail_configured=mail.configured())


class ResetPasswordSent(PasswordResetDoneView):
    template_name = "accounts/reset_password_sent.html"


class ResetPasswordConfirm(PasswordResetConfirmView):
    """Django's own: the link's secret goes into the session at once, so that no page is shown at an address with it."""

    template_name = "accounts/reset_password_confirm.html"
    form_class = ResetConfirmForm
    success_url = reverse_lazy("sign_in")

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response = super().form_valid(form)
            actor = Actor(form.user, address=address_of(self.request))
            services.note_password_change(actor=actor, how="reset", revoke_tokens=form.cleaned_data["revoke_tokens"])
        forget_failures(username=form.user.email)
        messages.success(self.request, _("Your password is changed. Sign in with the new one."))
        return response


reset_password = page("reset-password/", title=_("Reset password"), name="reset_password", public=True)(
    form_only(ResetPassword.as_view())
)
reset_password_sent = page(
    "reset-password/sent/", title=_("Look into your mailbox"), name="reset_password_sent", public=True
)(require_safe(ResetPasswordSent.as_view()))
reset_password_confirm = page(
    "reset-password/<uidb64>/<token>/", title=_("New password"), name="reset_password_confirm", public=True
)(form_only(ResetPasswordConfirm.as_view()))
