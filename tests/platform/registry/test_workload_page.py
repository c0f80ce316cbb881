"""The workload on a version's page: as fields, as text, and its older revisions."""

from __future__ import annotations

import pytest
from django.test import Client

from fuseworks.accounts.models import Team
from fuseworks.registry.models import ModelVersion
from tests.platform import factories
from tests.platform.registry.helpers import text, value_of

pytestmark = pytest.mark.django_db


def workload_form(shown: int, current: int, **typed: str) -> dict[str, str]:
    """What a browser sends of the form of `factories.workload_document()`."""
    form = {
        "shown": str(shown),
        "current": str(current),
        "name": "serving",
        "mode": "inference",
        "precisions": "float32",
        "inputs-0-kind": "default",
        "inputs-0-parameters": "",
        "inputs-0-from": "",
        "inputs-0-below": "",
        "limits-latency_ms": "",
        "limits-peak_memory_bytes": "",
        "limits-max_error": "",
        "contracts": "",
    }
    return {**form, **typed}


def test_the_form_saves_a_new_revision(client: Client, version: ModelVersion) -> None:
    factories.make_workload(version)
    assert value_of(client.get(f"/versions/{version.pk}/"), "limits-latency_ms") == ""
    form = workload_form(1, 1, **{"limits-latency_ms": "2.5", "inputs-0-kind": "normal", "inputs-0-parameters": "0, 3"})
    saved = client.post(f"/versions/{version.pk}/workload/", form, follow=True)
    assert "Revision 2 is the current workload." in text(saved)
    document = version.workloads.order_by("-number")[0].document
    assert document["limits"] == {"latency_ms": 2.5}
    assert document["inputs"][0]["values"] == {"normal": [0.0, 3.0], "from": 0}
    assert value_of(saved, "limits-latency_ms") == "2.5"
    assert value_of(saved, "inputs-0-parameters") == "0.0, 3.0"


def test_a_wrong_field_is_named_and_everything_typed_is_kept(client: Client, version: ModelVersion) -> None:
    factories.make_workload(version)
    form = workload_form(1, 1, **{"limits-latency_ms": "fast", "name": "typed", "inputs-0-parameters": "also kept"})
    refused = client.post(f"/versions/{version.pk}/workload/", form)
    assert refused.status_code == 422
    assert value_of(refused, "limits-latency_ms") == "fast"
    assert value_of(refused, "name") == "typed"
    assert value_of(refused, "inputs-0-parameters") == "also kept"
    assert "Write one number, or nothing." in text(refused)
    assert version.workloads.count() == 1


def test_a_revision_saved_meanwhile_is_not_overwritten(client: Client, version: ModelVersion) -> None:
    factories.make_workload(version)
    factories.make_workload(version, factories.workload_document() | {"name": "theirs"}, source="edited")
    refused = client.post(f"/versions/{version.pk}/workload/", workload_form(1, 1, name="mine"))
    assert refused.status_code == 422
    assert "Revision 2 of the workload was saved meanwhile" in text(refused)
    assert value_of(refused, "name") == "mine"
    assert (value_of(refused, "shown"), value_of(refused, "current")) == ("1", "2")
    # having been told, he may
    client.post(f"/versions/{version.pk}/workload/", workload_form(1, 2, name="mine"))
    assert version.workloads.order_by("-number")[0].document["name"] == "mine"


def test_the_text_saves_a_new_revision(client: Client, version: ModelVersion) -> None:
    factories.make_workload(version)
    document = "inputs:\n- {name: x, dtype: float32, shape: [batch, 8]}\ndims: {batch: {serve: [4], max: 64}}\n"
    saved = client.post(f"/versions/{version.pk}/workload/", {"document": document, "current": "1"}, follow=True)
    assert "Revision 2 is the current workload." in text(saved)
    assert "Dimensions that vary" in text(saved)
    assert value_of(saved, "dims-0-serve") == "4"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("inputs: [", "line 1, column 10"),
        ("inputs: []", "inputs : List should have at least 1 item"),
        ("inputs:\n- {name: x, dtype: float32, shape: [b]}", "['b'] are used in shapes but not declared"),
        ("just words", "workload : Input should be a valid dictionary"),
    ],
)
def test_wrong_text_is_kept_and_the_mistake_is_named(
    client: Client, version: ModelVersion, document: str, message: str
) -> None:
    factories.make_workload(version)
    refused = client.post(f"/versions/{version.pk}/workload/", {"document": document, "current": "1"})
    assert refused.status_code == 422
    shown = text(refused).replace("&#x27;", "'")
    assert message in shown
    assert document.split("\n")[0] in shown
    assert version.workloads.count() == 1


def test_before_the_inspection_the_text_makes_the_first_revision(client: Client, team: Team) -> None:
    version = factories.make_version(factories.make_model(team))
    assert value_of(client.get(f"/versions/{version.pk}/"), "current") == "0"
    document = '{"inputs": [{"name": "x", "dtype": "float32", "shape": [4]}]}'
    client.post(f"/versions/{version.pk}/workload/", {"document": document, "current": "0"})
    assert version.workloads.get().number == 1
    fields = client.post(f"/versions/{factories.make_version(version.model).pk}/workload/", workload_form(1, 1))
    assert fields.status_code == 409


def test_older_revisions_are_shown_and_restored(client: Client, version: ModelVersion) -> None:
    factories.make_workload(version)
    factories.make_workload(version, factories.workload_document() | {"name": "peak"}, source="edited")
    older = client.get(f"/versions/{version.pk}/?workload=1")
    assert "This is revision 1; the current one is 2." in text(older)
    assert value_of(older, "name") == "serving"
    assert client.get(f"/versions/{version.pk}/?workload=7").status_code == 404
    assert client.get(f"/versions/{version.pk}/?workload=99999999999999999999").status_code == 404
    restored = client.post(f"/versions/{version.pk}/workload/1/restore/", follow=True)
    assert "Revision 3 is the current workload, as revision 1 was." in text(restored)
    assert version.workloads.order_by("-number")[0].document["name"] == "serving"
