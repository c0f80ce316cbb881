"""One's own API tokens: list, make, revoke. A new token is shown in the very answer, once: it is stored nowhere."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fuseworks.accounts import selectors, services
from fuseworks.accounts.forms import TokenForm
from fuseworks.accounts.permissions import Actor, actor_of
from fuseworks.accounts.telling import at_field
from fuseworks.core.discovery import page
from fuseworks.core.lookup import get_or_404


@page("tokens/", title=_("API tokens"), name="tokens")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def tokens(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if request.method != "POST":
        return _tokens_page(request, actor)
    form = TokenForm(request.POST, teams=selectors.teams(actor=actor))
    if form.is_valid():
        with at_field(form, "name"):
            issued = services.token_create(actor=actor, **form.cleaned_data)
            return _tokens_page(request, actor, issued=issued)
    return _tokens_page(request, actor, form=form)


def _tokens_page(request: HttpRequest, actor: Actor, **context: Any) -> HttpResponse:
    context = {
        "tokens": selectors.tokens(actor=actor),
        "form": TokenForm(teams=selectors.teams(actor=actor)),
        "now": timezone.now(),
        **context,
    }
    return render(request, "accounts/tokens.html", context)


@page("tokens/<uuid:token_id>/revoke/", title=_("Revoke token"), name="token_revoke")
@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: HttpRequest, token_id: uuid.UUID) -> HttpResponse:
    """Asks once: what uses the token stops to work, and it cannot be taken back."""
    actor = actor_of(request)
    if request.method != "POST":
        token = get_or_404(selectors.tokens(actor=actor), what="token", pk=token_id)
        return render(request, "accounts/token_revoke.html", {"token": token})
    services.token_revoke(actor=actor, token_id=token_id)
    messages.success(request, _("The token is revoked: it is refused from now on."))
    return redirect("tokens")
