"""Forms of the accounts app. They check what was typed; rights are checked by the services."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth import password_validation
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, PasswordResetForm, SetPasswordForm
from django.db.models import QuerySet
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext_lazy as _

from fuseworks.accounts import mail, services
from fuseworks.accounts.models import BusinessUnit, Role, Scope, Team
from fuseworks.accounts.permissions import Actor, address_of
from fuseworks.accounts.services.invitations import MAX_EMAIL_CHARACTERS
from fuseworks.accounts.sizes import bytes_of
from fuseworks.core.errors import PlatformError
from fuseworks.core.telling import sentence_of

EXPIRIES = {"30": _("In 30 days"), "90": _("In 90 days"), "365": _("In a year"), "": _("Never")}


class Styled(forms.BaseForm):
    """The classes of the style sheet; fields in error are marked."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["class"] = _class_of(field.widget)

    def add_error(self, field: str | None, error: Any) -> None:
        super().add_error(field, error)
        for name in self.errors:
            if name in self.fields:
                attributes = self.fields[name].widget.attrs
                attributes["class"] = f"{attributes['class'].removesuffix(' is-invalid')} is-invalid"


def _class_of(widget: forms.Widget) -> str:
    if isinstance(widget, (forms.CheckboxInput, forms.CheckboxSelectMultiple)):
        return "form-check-input"
    return "form-select" if isinstance(widget, forms.Select) else "form-control"


class SignInForm(Styled, AuthenticationForm):
    username = forms.EmailField(
        label=_("E-mail address"),
        max_length=MAX_EMAIL_CHARACTERS,
        widget=forms.EmailInput(attrs={"autofocus": True, "autocomplete": "username"}),
    )

    def get_invalid_login_error(self) -> forms.ValidationError:
        """The same for an unknown address, a wrong password and a closed account."""
        return forms.ValidationError(_("The e-mail address or the password is wrong."), code="invalid_login")

    def clean_username(self) -> str:
        """In the one form in which django-axes counts it: other letters' case would be another ten tries."""
        return str(self.cleaned_data["username"]).lower()


class RevokeTokens(forms.Form):
    revoke_tokens = forms.BooleanField(
        required=False,
        label=_("Revoke all my API tokens too"),
        help_text=_("Advisable when somebody else may know the password. Scripts need new ones then."),
    )


class ChangePasswordForm(Styled, PasswordChangeForm, RevokeTokens):
    field_order = ("old_password", "new_password1", "new_password2", "revoke_tokens")


class ResetConfirmForm(Styled, SetPasswordForm, RevokeTokens):
    field_order = ("new_password1", "new_password2", "revoke_tokens")

    def __init__(self, user: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(user, *args, **kwargs)
        self.fields["revoke_tokens"].initial = True


class ResetPasswordForm(Styled, PasswordResetForm):
    """Sends a link to the account of the address, if there is one; what is answered tells nobody whether."""

    def save(self, *args: Any, **options: Any) -> None:
        request, token_generator = options["request"], options["token_generator"]
        for user in self.get_users(self.cleaned_data["email"]):
            if services.note_reset_request(actor=Actor(user, address=address_of(request))):
                uid = urlsafe_base64_encode(force_bytes(user.pk))
                context = {"name": str(user), "uid": uid, "token": token_generator.make_token(user)}
                mail.send(
                    to=user.email, template="accounts/mail/reset_password", context=context, language=user.language
                )


class NewMemberForm(Styled, forms.Form):
    """The account of somebody who was invited; its address is the invitation's."""

    name = forms.CharField(label=_("Your name"), max_length=100, widget=forms.TextInput(attrs={"autocomplete": "name"}))
    password1 = forms.CharField(
        label=_("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=password_validation.password_validators_help_text_html(),
    )
    password2 = forms.CharField(
        label=_("Password again"), strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "password1" in cleaned and "password2" in cleaned and cleaned["password1"] != cleaned["password2"]:
            self.add_error("password2", _("The two passwords differ."))
        return cleaned


class ProfileForm(Styled, forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=100, required=False, help_text=_("What others read in place of your address.")
    )
    language = forms.ChoiceField(label=_("Language"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["language"].choices = [("", _("What the browser asks for")), *settings.LANGUAGES]  # type: ignore[attr-defined]


class TeamForm(Styled, forms.Form):
    business_unit = forms.ModelChoiceField(BusinessUnit.objects.none(), label=_("Business unit"), empty_label=None)
    name = forms.CharField(label=_("Name"), max_length=80)

    def __init__(self, *args: Any, units: QuerySet[BusinessUnit], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["business_unit"].queryset = units  # type: ignore[attr-defined]


class RenameForm(Styled, forms.Form):
    name = forms.CharField(label=_("Name"), max_length=80, help_text=_("Addresses of the team and its things stay."))


class QuotaForm(Styled, forms.Form):
    quota = forms.CharField(
        label=_("Quota"), max_length=40, required=False, help_text=_("As 50 GiB or 512 MiB; empty: the site's default.")
    )

    def clean_quota(self) -> int | None:
        text = str(self.cleaned_data["quota"]).strip()
        try:
            return bytes_of(text) if text else None
        except PlatformError as error:
            raise forms.ValidationError(sentence_of(error)) from error


class CloseAccountForm(Styled, forms.Form):
    password = forms.CharField(
        label=_("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class AuditFilterForm(Styled, forms.Form):
    """What of a team's audit log is shown. `what`: a part of the action; `who`: of an address or a name."""

    what = forms.CharField(label=_("What"), max_length=60, required=False)
    who = forms.CharField(label=_("Who"), max_length=100, required=False)
    since = forms.DateField(label=_("From day"), required=False, widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(label=_("To day"), required=False, widget=forms.DateInput(attrs={"type": "date"}))


class InviteForm(Styled, forms.Form):
    email = forms.EmailField(label=_("E-mail address"), max_length=MAX_EMAIL_CHARACTERS)
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices, initial=Role.MEMBER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


class TokenForm(Styled, forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=80, help_text=_("What it is for: “nightly pipeline”. At most 80 characters.")
    )
    team = forms.ModelChoiceField(
        Team.objects.none(),
        label=_("Good in"),
        required=False,
        empty_label=_("All my teams"),
        to_field_name="slug",
    )
    scopes = forms.MultipleChoiceField(
        label=_("What it may do"),
        choices=Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        initial=[Scope.READ],
        help_text=_("At most what your role in the team allows. Reading is always in."),
    )
    expires_in_days = forms.TypedChoiceField(
        label=_("Expires"), choices=list(EXPIRIES.items()), coerce=int, empty_value=None, required=False, initial="90"
    )

    def __init__(self, *args: Any, teams: QuerySet[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]
