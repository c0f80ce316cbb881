"""Sign in with e-mail address and password. django-axes counts failures and shows `lockout.locked_out`."""

from __future__ import annotations

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from fuseworks.accounts.forms import SignInForm
from fuseworks.accounts.languages import remember_language
from fuseworks.core.discovery import page

form_only = require_http_methods(["GET", "HEAD", "POST"])


class SignIn(LoginView):
    """Django's own: a new session id, and no way to another site by `next`."""

    template_name = "accounts/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get_success_url(self) -> str:
        url = super().get_success_url()
        # `next` naming this very page would go round for ever.
        return str(self.get_default_redirect_url()) if url == self.request.path else str(url)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        language = form.get_user().language
        if language:
            remember_language(response, language)
        return response


sign_in = page("sign-in/", title=_("Sign in"), name="sign_in", public=True)(form_only(SignIn.as_view()))
