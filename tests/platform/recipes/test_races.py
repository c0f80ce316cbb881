"""Two people who change one recipe at the same moment: how it stands counts, not how one of them saw it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.recipes import services
from fuseworks.recipes.models import Recipe
from tests.platform import factories
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
        return cursor.fetchone() is not None


def test_a_maintainer_does_not_narrow_what_an_owner_opens_to_the_company_meanwhile(team: Any) -> None:
    owner = Actor(factories.make_member(team, "owner"))
    maintainer = Actor(factories.make_member(team, "maintainer"))
    draft = services.recipe_save(actor=owner, team=team, document=document())
    services.version_publish(actor=owner, recipe_version=draft, visibility="team")
    opened = Event()

    def open_to_all() -> None:
        try:
            with transaction.atomic():
                services.visibility_change(actor=owner, recipe=Recipe.objects.get(), visibility="company")
                opened.set()
                deadline = time.monotonic() + WAIT_S
                while not somebody_waits_for_a_lock():
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
        finally:
            opened.set()
            connection.close()

    seen = Recipe.objects.get()
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(open_to_all)
        assert opened.wait(WAIT_S)
        with pytest.raises(PlatformError) as caught:
            services.visibility_change(actor=maintainer, recipe=seen, visibility="unit")
        opening.result(WAIT_S)
    assert (caught.value.id, caught.value.context["needed"]) == ("core:usage:forbidden", "owner")
    assert Recipe.objects.get().visibility == "company"


def test_who_narrows_it_meanwhile_leaves_the_rest_to_a_maintainer(team: Any) -> None:
    owner, maintainer = (Actor(factories.make_member(team, role)) for role in ("owner", "maintainer"))
    draft = services.recipe_save(actor=owner, team=team, document=document())
    services.version_publish(actor=owner, recipe_version=draft, visibility="company")
    seen = Recipe.objects.get()
    services.visibility_change(actor=owner, recipe=Recipe.objects.get(), visibility="unit")
    changed = services.visibility_change(actor=maintainer, recipe=seen, visibility="team")
    assert changed.visibility == Recipe.objects.get().visibility == "team"
