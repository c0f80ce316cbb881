"""Who may do what with every address of the registry: strangers find nothing, viewers read, members write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from fuseworks.accounts.models import Team
from fuseworks.core.discovery import endpoints, pages
from fuseworks.registry.models import Upload
from tests.platform import factories

pytestmark = pytest.mark.django_db
SOURCE = b"class Model: ...\n"
DOCUMENT = {"inputs": [{"name": "x", "dtype": "float32", "shape": [4]}]}


@pytest.fixture
def addresses() -> dict[str, str]:
    team = factories.make_team("ads-ranking")
    model = factories.make_model(team)
    version = factories.make_version(model, data=SOURCE)
    factories.make_workload(version)
    upload = Upload.objects.create(
        team=team, model=model, model_name="m", filename="a.py", length_bytes=9, expires_at=version.created_at
    )
    return {
        "team": str(team.slug),
        "model_id": str(model.pk),
        "version_id": str(version.pk),
        "upload_id": str(upload.pk),
        "number": "1",
    }


# What an address answers to a viewer, a member and a maintainer, when the request itself is right; by method.
API: dict[str, dict[str, tuple[int, int, int]]] = {
    "models/": {"GET": (200, 200, 200)},
    "models/<uuid:model_id>/": {"GET": (200, 200, 200), "PATCH": (403, 200, 200)},
    "models/<uuid:model_id>/versions/": {"GET": (200, 200, 200)},
    "versions/<uuid:version_id>/": {"GET": (200, 200, 200), "DELETE": (403, 403, 204)},
    "versions/<uuid:version_id>/file/": {"GET": (200, 200, 200)},
    "versions/<uuid:version_id>/workloads/": {"GET": (200, 200, 200), "POST": (403, 201, 201)},
    "uploads/": {"GET": (200, 200, 200)},
    "uploads/<uuid:upload_id>/": {"GET": (410, 410, 410), "DELETE": (403, 204, 204), "PATCH": (403, 410, 410)},
    "uploads/<slug:team>/<str:model_name>/<str:filename>": {"PUT": (403, 201, 201)},
}
PAGES: dict[str, dict[str, tuple[int, int, int]]] = {
    "models/": {"GET": (200, 200, 200)},
    "models/<uuid:model_id>/": {"GET": (200, 200, 200), "POST": (403, 302, 302)},
    "versions/<uuid:version_id>/": {"GET": (200, 200, 200)},
    "versions/<uuid:version_id>/inspection/": {"GET": (200, 200, 200)},
    "versions/<uuid:version_id>/inspect/": {"POST": (403, 302, 302)},
    "versions/<uuid:version_id>/file/": {"GET": (200, 200, 200)},
    "versions/<uuid:version_id>/delete/": {"GET": (403, 403, 200), "POST": (403, 403, 302)},
    "versions/<uuid:version_id>/optimize/": {"POST": (403, 302, 302)},
    # no worker is registered here, and so there is no target to choose; with one: tests/platform/scoping/other_pages.py
    "versions/<uuid:version_id>/predict/": {"POST": (422, 422, 422)},
    "versions/<uuid:version_id>/compare/": {"POST": (422, 422, 422)},
    "versions/<uuid:version_id>/workload/": {"POST": (403, 302, 302)},
    "versions/<uuid:version_id>/workload/<int:number>/restore/": {"POST": (403, 302, 302)},
    "uploads/new/": {"GET": (200, 200, 200)},
}
BODIES: dict[str, Any] = {
    "models/<uuid:model_id>/": {"name": "New name", "family": "vision", "description": "x"},
    "versions/<uuid:version_id>/workloads/": {"document": {**DOCUMENT, "name": "other"}},
    "versions/<uuid:version_id>/workload/": {"document": '{"inputs": [{"name": "x", "dtype": "int8", "shape": [4]}]}'},
    "versions/<uuid:version_id>/optimize/": {
        "run-target": "cpu",
        "run-budget_s": "60",
        "run-precisions": "float32",
        "run-max_pairs": "6",
    },
}
OF_NOBODY = ("models/", "uploads/", "uploads/new/")  # lists, empty for a stranger


def cases(table: dict[str, dict[str, tuple[int, int, int]]]) -> list[Any]:
    return [pytest.param(address, method, id=f"{method} {address}") for address in table for method in table[address]]


def filled(address: str, values: dict[str, str]) -> str:
    for name, value in {**values, "model_name": "din", "filename": "din.py"}.items():
        for kind in ("uuid", "slug", "str", "int"):
            address = address.replace(f"<{kind}:{name}>", value)
    assert "<" not in address
    return address


def ask_api(user: Any, address: str, method: str, values: dict[str, str]) -> int:
    api = factories.api_for(user)
    place = f"/api/v1/{filled(address, values)}"
    if method in ("PUT", "PATCH") and address.startswith("uploads/"):
        return int(api.generic(method, place, SOURCE + b"# other", headers={"Upload-Offset": "0"}).status_code)
    return int(getattr(api, method.lower())(place, BODIES.get(address)).status_code)


def ask_page(user: Any, address: str, method: str, values: dict[str, str]) -> int:
    client: Any = factories.client_for(user)
    body = BODIES.get(address) if method == "POST" else None
    return int(getattr(client, method.lower())(f"/{filled(address, values)}", body).status_code)


def test_the_tables_name_every_address_of_the_registry() -> None:
    def own(found: Any) -> set[str]:
        return {entry.address for entry in found if entry.view.__module__.startswith("fuseworks.registry.")}

    assert own(endpoints()) == set(API)
    assert own(pages()) == set(PAGES)


def each_role(team: Team, statuses: tuple[int, int, int]) -> Iterator[tuple[Any, int]]:
    """A user of each role and what he is to get; what he changed is undone before the next."""
    for role, status in zip(("viewer", "member", "maintainer"), statuses, strict=True):
        with transaction.atomic():
            yield factories.make_member(team, role), status
            transaction.set_rollback(True)


@pytest.mark.parametrize(("address", "method"), cases(API))
def test_the_api_answers_each_role_as_it_may(addresses: dict[str, str], address: str, method: str) -> None:
    team = Team.objects.get(slug=addresses["team"])
    for user, status in each_role(team, API[address][method]):
        assert ask_api(user, address, method, addresses) == status, user.memberships.get().role


@pytest.mark.parametrize(("address", "method"), cases(PAGES))
def test_the_pages_answer_each_role_as_it_may(addresses: dict[str, str], address: str, method: str) -> None:
    team = Team.objects.get(slug=addresses["team"])
    for user, status in each_role(team, PAGES[address][method]):
        assert ask_page(user, address, method, addresses) == status, user.memberships.get().role


@pytest.mark.parametrize(("address", "method"), cases(API))
def test_the_api_tells_a_stranger_nothing(addresses: dict[str, str], address: str, method: str) -> None:
    stranger = factories.make_member(factories.make_team("other"), "owner")
    if address in OF_NOBODY:
        assert factories.api_for(stranger).get(f"/api/v1/{address}").json()["results"] == []
        return
    assert ask_api(stranger, address, method, addresses) == 404


@pytest.mark.parametrize(("address", "method"), cases(PAGES))
def test_the_pages_tell_a_stranger_nothing(addresses: dict[str, str], address: str, method: str) -> None:
    stranger = factories.make_member(factories.make_team("other"), "owner")
    if address in OF_NOBODY:
        body = factories.client_for(stranger).get(f"/{address}").content.decode()
        assert addresses["model_id"] not in body
        return
    assert ask_page(stranger, address, method, addresses) == 404
