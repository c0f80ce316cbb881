"""No text that a form lets through is too long for its column, and what no field foresaw is refused, not a fault."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DataError

from fuseworks.accounts import forms
from fuseworks.accounts.models import ApiToken, Invitation, Team, User
from fuseworks.core.problems import exception_handler
from fuseworks.registry.forms import DescriptionForm, UploadForm
from fuseworks.registry.models import Model, ModelVersion, Upload
from tests.platform.factories import client_for, make_member, make_team

FIELDS = [
    (forms.SignInForm, "username", User, "email"),
    (forms.NewMemberForm, "name", User, "name"),
    (forms.ProfileForm, "name", User, "name"),
    (forms.TeamForm, "name", Team, "name"),
    (forms.RenameForm, "name", Team, "name"),
    (forms.InviteForm, "email", Invitation, "email"),
    (forms.TokenForm, "name", ApiToken, "name"),
    (DescriptionForm, "name", Model, "name"),
    (DescriptionForm, "description", Model, "description"),
    (UploadForm, "model_name", Upload, "model_name"),
    (UploadForm, "file", ModelVersion, "filename"),
]


@pytest.mark.parametrize(("form", "field", "model", "column"), FIELDS)
def test_a_form_takes_no_text_that_its_column_does_not(form: Any, field: str, model: Any, column: str) -> None:
    limit = model._meta.get_field(column).max_length
    assert form.base_fields[field].max_length <= limit


@pytest.mark.django_db
@pytest.mark.parametrize("length", [255, 320])
def test_signing_in_with_an_endless_address_is_a_wrong_field_and_no_fault(client: Any, length: int) -> None:
    address = "a@" + ".".join(["b" * 60] * 6)[: length - 6] + ".com"
    answer = client.post("/sign-in/", {"username": address, "password": "x"})
    assert answer.status_code == 200
    assert "at most 254 characters" in answer.content.decode()


@pytest.mark.django_db
def test_what_no_field_foresaw_is_refused_on_the_page() -> None:
    owner = make_member(make_team("ads-ranking"), "owner")
    page = client_for(owner).post("/recipes/new/", {"team": "ads\0ranking", "document": "kind: Recipe"})
    assert page.status_code == 400
    assert "holds a character that cannot be stored" in page.content.decode()


def test_what_no_field_foresaw_is_refused_by_the_api() -> None:
    answer = exception_handler(DataError("value too long for type character varying(254)"), {})
    assert (answer.status_code, answer.data["id"]) == (400, "core:usage:unstorable")
    assert "varying" not in str(answer.data)
