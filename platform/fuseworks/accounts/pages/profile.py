"""One's own name and language. The address is what one signs in by and stays."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from fuseworks.accounts import services
from fuseworks.accounts.forms import ProfileForm
from fuseworks.accounts.languages import remember_language
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page


@page("profile/", title=_("Profile"), name="profile")
@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    initial = {"name": actor.user.name, "language": actor.user.language}
    form = ProfileForm(request.POST if request.method == "POST" else None, initial=initial)
    if form.is_valid():
        services.profile_change(actor=actor, **form.cleaned_data)
        messages.success(request, _("Saved."))
        response = redirect("profile")
        remember_language(response, form.cleaned_data["language"])
        return response
    return render(request, "accounts/profile.html", {"form": form})
