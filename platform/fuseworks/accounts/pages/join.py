"""Where the link of an invitation leads: join with the account that one has, or make one and join.

The link's secret leaves the address bar at once; the session keeps only its hash.
"""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from fuseworks.accounts import selectors, services
from fuseworks.accounts.authentication import token_sha256
from fuseworks.accounts.forms import NewMemberForm
from fuseworks.accounts.models import Invitation, User
from fuseworks.accounts.permissions import actor_of, address_of
from fuseworks.accounts.telling import as_message, at_field
from fuseworks.core.discovery import page

SESSION_KEY = "invitation_sha256"
BACKEND = "django.contrib.auth.backends.ModelBackend"


@page("invitations/<str:token>/", title=_("Invitation"), name="invitation", public=True)
@require_safe
@never_cache
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    sha256 = token_sha256(token)
    selectors.invitation_by_hash(sha256=sha256)
    request.session[SESSION_KEY] = sha256
    return redirect("join")


@page("join/", title=_("Join a team"), name="join", public=True)
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def join(request: HttpRequest) -> HttpResponse:
    invitation = selectors.invitation_by_hash(sha256=request.session.get(SESSION_KEY, ""))
    if request.user.is_authenticated:
        return _join_as_user(request, invitation)
    return _join_as_new(request, invitation)


def _join_as_user(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    if request.method == "POST":
        with as_message(request):
            services.invitation_accept(actor=actor_of(request), invitation=invitation)
            return _welcome(request, invitation)
    return render(request, "accounts/join.html", {"invitation": invitation})


def _join_as_new(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    known = User.objects.filter(email__iexact=invitation.email).exists()
    form = None if known else NewMemberForm(request.POST if request.method == "POST" else None)
    if form is not None and form.is_valid():
        with at_field(form, "password1"):
            membership = services.invitation_accept_as_new(
                invitation=invitation,
                name=form.cleaned_data["name"],
                password=form.cleaned_data["password1"],
                language=get_language() or "",
                address=address_of(request),
            )
            login(request, membership.user, backend=BACKEND)
            return _welcome(request, invitation)
    return render(request, "accounts/join.html", {"invitation": invitation, "form": form})


def _welcome(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    request.session.pop(SESSION_KEY, None)
    messages.success(request, _("Welcome to %(team)s.") % {"team": invitation.team.name})
    return redirect("team", slug=invitation.team.slug)
