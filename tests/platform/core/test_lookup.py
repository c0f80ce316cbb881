"""What is not there and what may not be seen look alike."""

from __future__ import annotations

import uuid

import pytest

from fuseworks.accounts.models import Team
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.models import Model
from tests.platform.factories import make_model, make_team

pytestmark = pytest.mark.django_db


def test_it_gets_the_one_row_that_the_filter_names() -> None:
    team = make_team("ads-ranking")
    make_team("search")
    assert get_or_404(Team.objects.all(), what="team", slug="ads-ranking") == team


@pytest.mark.parametrize("key", [uuid.uuid4(), "not-a-uuid"])
def test_it_refuses_what_is_not_there_and_what_is_no_id_alike(key: object) -> None:
    with pytest.raises(PlatformError) as caught:
        get_or_404(Model.objects.all(), what="model", pk=key)
    assert caught.value.id == "core:usage:not-found"
    assert caught.value.status == 404
    assert "no such model" in caught.value.message


def test_it_refuses_a_row_outside_of_the_query_set() -> None:
    model = make_model(make_team())
    with pytest.raises(PlatformError):
        get_or_404(Model.objects.none(), what="model", pk=model.pk)
