"""Close one's own account: what it takes away, what stays, and the password. Asks once; there is no way back."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from fuseworks.accounts import selectors, services
from fuseworks.accounts.forms import CloseAccountForm
from fuseworks.accounts.permissions import actor_of
from fuseworks.accounts.telling import at_field
from fuseworks.core.discovery import page


@page("close-account/", title=_("Close account"), name="close_account")
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def close_account(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    form = CloseAccountForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        with at_field(form, "password"):
            services.account_close(actor=actor, password=form.cleaned_data["password"])
            logout(request)
            messages.success(request, _("Your account is closed."))
            return redirect("sign_in")
    context = {
        "form": form,
        "left": services.teams_without_another_owner(actor.user),
        "memberships": selectors.own_memberships(actor=actor),
        "tokens": selectors.tokens(actor=actor).count(),
    }
    return render(request, "accounts/close_account.html", context)
