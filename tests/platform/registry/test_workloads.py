"""Revisions of a workload: saved, refused, restored; what an inspection leaves; text."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.registry import workload_text
from fuseworks.registry.models import ModelVersion, Workload
from fuseworks.registry.selectors import current_workload
from fuseworks.registry.services import version_delete, workload_restore, workload_save
from fuseworks.registry.when_finished import inspected
from optimizer.result import Inspection, Result, RunStatus
from optimizer.spec import Dim, InputSpec, Purpose, Values
from optimizer.spec import Workload as WorkloadSpec
from tests.platform import factories

pytestmark = pytest.mark.django_db
DOCUMENT = {
    "inputs": [{"name": "ids", "dtype": "int64", "shape": ["batch", 3], "values": {"below": [10, 20, 30]}}],
    "dims": {"batch": {"serve": [8, 16], "max": 32}},
}


@pytest.fixture
def version() -> ModelVersion:
    return factories.make_version(factories.make_model(factories.make_team()))


@pytest.fixture
def actor(version: ModelVersion) -> Actor:
    return Actor(factories.make_member(version.model.team))


def changed(**fields: Any) -> dict[str, Any]:
    return {**DOCUMENT, **fields}


def test_each_save_is_a_new_revision_and_none_is_overwritten(actor: Actor, version: ModelVersion) -> None:
    first = workload_save(actor=actor, version=version, document=DOCUMENT)
    second = workload_save(actor=actor, version=version, document=changed(name="peak"))
    assert [first.number, second.number] == [1, 2]
    assert (first.source, second.created_by) == ("edited", actor.user)
    assert current_workload(version=version) == second
    first.refresh_from_db()
    assert first.document["name"] == "serving"


def test_it_is_stored_as_people_write_it_without_what_is_not_set(actor: Actor, version: ModelVersion) -> None:
    saved = workload_save(actor=actor, version=version, document=changed(limits={"latency_ms": 5, "max_error": None}))
    saved.refresh_from_db()
    assert saved.document["inputs"][0]["values"] == {"from": 0, "below": [10, 20, 30]}
    assert saved.document["limits"] == {"latency_ms": 5.0}
    assert saved.document["dims"] == {"batch": {"serve": [8, 16], "min": 1, "max": 32}}
    assert WorkloadSpec.model_validate(saved.document).dims["batch"] == Dim(serve=[8, 16], max=32)


def test_saving_the_same_again_makes_no_revision(actor: Actor, version: ModelVersion) -> None:
    first = workload_save(actor=actor, version=version, document=DOCUMENT)
    assert workload_save(actor=actor, version=version, document=DOCUMENT) == first
    assert Workload.objects.count() == 1


def test_an_older_revision_comes_back_as_a_new_one(actor: Actor, version: ModelVersion) -> None:
    first = workload_save(actor=actor, version=version, document=DOCUMENT)
    workload_save(actor=actor, version=version, document=changed(name="peak"))
    third = workload_restore(actor=actor, version=version, number=1)
    assert (third.number, third.document) == (3, first.document)
    with pytest.raises(PlatformError) as caught:
        workload_restore(actor=actor, version=version, number=9)
    assert caught.value.status == 404


def test_a_save_on_top_of_an_older_revision_is_refused(actor: Actor, version: ModelVersion) -> None:
    workload_save(actor=actor, version=version, document=DOCUMENT, based_on=0)
    workload_save(actor=actor, version=version, document=changed(name="a"), based_on=1)
    with pytest.raises(PlatformError) as caught:
        workload_save(actor=actor, version=version, document=changed(name="b"), based_on=1)
    assert (caught.value.id, caught.value.status) == ("registry:usage:workload-changed", 409)
    assert Workload.objects.count() == 2


@pytest.mark.parametrize(
    ("document", "path", "text"),
    [
        ({}, "inputs", "required"),
        ([], "workload", ""),
        (None, "workload", ""),
        ("text", "workload", ""),
        (changed(limits={"latency": 5}), "limits.latency", "not permitted"),
        (changed(limits={"latency_ms": -5}), "limits.latency_ms", "greater than 0"),
        (changed(dims={"batch": {"serve": [64], "max": 32}}), "dims.batch", "[64] must lie within [1, 32]"),
        (changed(dims={}), "workload", "['batch'] are used in shapes but not declared"),
        (changed(inputs=[{"name": "x", "dtype": "float99", "shape": []}]), "inputs.0.dtype", "float32"),
    ],
)
def test_a_wrong_workload_is_refused_by_path(
    actor: Actor, version: ModelVersion, document: Any, path: str, text: str
) -> None:
    with pytest.raises(PlatformError) as caught:
        workload_save(actor=actor, version=version, document=document)
    assert (caught.value.id, caught.value.status) == ("registry:user:workload", 422)
    assert text in " ".join(caught.value.extra["fields"][path])
    assert Workload.objects.count() == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "a\0b", "\ud800"])
def test_what_the_database_cannot_hold_is_refused(actor: Actor, version: ModelVersion, value: Any) -> None:
    field = {"name": value} if isinstance(value, str) else {"limits": {"max_error": value}}
    if value != value:  # NaN is not greater than 0
        field = {"inputs": [{"name": "x", "dtype": "float32", "shape": [1], "values": {"constant": value}}]}
    with pytest.raises(PlatformError) as caught:
        workload_save(actor=actor, version=version, document=changed(**field))
    assert caught.value.id == "registry:user:workload"


def test_a_deleted_version_takes_no_workload(actor: Actor, version: ModelVersion) -> None:
    version_delete(actor=Actor(factories.make_member(version.model.team, "owner")), version=version)
    with pytest.raises(PlatformError) as caught:
        workload_save(actor=actor, version=version, document=DOCUMENT)
    assert (caught.value.id, caught.value.status) == ("registry:usage:deleted", 410)


def test_viewers_save_no_workload(version: ModelVersion) -> None:
    viewer = Actor(factories.make_member(version.model.team, "viewer"))
    with pytest.raises(PlatformError) as caught:
        workload_save(actor=viewer, version=version, document=DOCUMENT)
    assert caught.value.status == 403


# ---- the inspection -----------------------------------------------------------------------------------------------


def answer(**fields: Any) -> Result:
    spec = WorkloadSpec(
        inputs=[InputSpec(name="ids", dtype="int64", shape=["batch", 3], values=Values.model_validate({"from": 1}))],
        dims={"batch": Dim(serve=[8], max=32)},
    )
    inspection = Inspection(format="py", sha256="0" * 64, size_bytes=17, parameters=12, parameter_bytes=48)
    defaults = {"purpose": Purpose.INSPECT, "status": RunStatus.SUCCEEDED, "inspection": inspection, "workload": spec}
    return Result(**{**defaults, **fields})


def test_an_inspection_fills_in_the_version_and_its_first_workload(version: ModelVersion) -> None:
    user = factories.make_member(version.model.team)
    run = factories.make_run(version, purpose="inspect", status="succeeded", created_by=user)
    inspected(run, answer())
    version.refresh_from_db()
    assert (version.inspection["parameters"], version.inspection["parameter_bytes"]) == (12, 48)
    workload = version.workloads.get()
    assert (workload.number, workload.source, workload.created_by) == (1, "inspected", user)
    assert workload.document["inputs"][0]["values"] == {"from": 1}


def test_a_second_inspection_leaves_the_workload_as_it_was_edited(actor: Actor, version: ModelVersion) -> None:
    edited = workload_save(actor=actor, version=version, document=DOCUMENT)
    inspected(factories.make_run(version, purpose="inspect", status="succeeded"), answer())
    version.refresh_from_db()
    assert version.inspection is not None
    assert current_workload(version=version) == edited


@pytest.mark.parametrize(
    ("purpose", "fields"),
    [("optimize", {"purpose": Purpose.OPTIMIZE}), ("inspect", {"status": RunStatus.FAILED, "inspection": None})],
)
def test_other_ends_leave_the_version_alone(version: ModelVersion, purpose: str, fields: dict[str, Any]) -> None:
    inspected(factories.make_run(version, purpose=purpose, status="succeeded"), answer(**fields))
    version.refresh_from_db()
    assert version.inspection is None
    assert version.workloads.count() == 0


# ---- text ---------------------------------------------------------------------------------------------------------


def test_text_is_yaml_and_json_and_comes_back_equal() -> None:
    document = {"name": "模型", "inputs": [{"name": "x", "shape": ["batch", 3]}], "dims": {"batch": {"serve": [1, 2]}}}
    text = workload_text.dump(document)
    assert "模型" in text and "shape: [batch, 3]" in text
    assert workload_text.parse(text) == document
    assert workload_text.parse('{"name": "x"}') == {"name": "x"}


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("a: [1, 2", "expected", "line 1, column 9"),
        ("a: 1\nb: &x [1]\nc: *x", "aliases are not read", "line 2, column 4"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor", "line 1, column 1"),
        ("x" * (256 * 1024 + 1), "more than 256", None),
        ("[" * 50_000, "", None),
        ("a: 1\na: 2", "'a' is repeated", "line 2, column 1"),
    ],
    ids=["open list", "alias", "object", "long", "deep", "twice"],
)
def test_text_that_cannot_be_read_is_refused_with_its_line(text: str, message: str, place: str | None) -> None:
    with pytest.raises(PlatformError) as caught:
        workload_text.parse(text)
    assert caught.value.id == "registry:user:workload"
    assert message in caught.value.message
    if place is not None:
        assert caught.value.place == place


@pytest.mark.parametrize(
    ("below", "text"),
    [
        ([10, 21, 30], "column 1 of input 'ids' goes up to 20, but the table that it indexes has 20 rows"),
        (11, "column 0 of input 'ids' goes up to 10, but the table that it indexes has 10 rows"),
        ([10, 20], "input 'ids' has 3 columns and 2 bounds in `below`"),
    ],
)
def test_ids_beyond_the_tables_that_the_inspection_saw_are_refused_at_once(
    actor: Actor, version: ModelVersion, below: Any, text: str
) -> None:
    version.inspection = {"id_rows": {"ids": [10, 20, None]}}
    ids = {**DOCUMENT["inputs"][0], "values": {"below": below}}
    with pytest.raises(PlatformError) as caught:
        workload_save(actor=actor, version=version, document=changed(inputs=[ids]))
    assert caught.value.id == "registry:user:workload"
    assert caught.value.extra["fields"] == {"inputs.0.values.below": [text]}
    assert version.workloads.count() == 0


def test_ids_within_the_tables_and_of_columns_that_index_none_are_saved(actor: Actor, version: ModelVersion) -> None:
    version.inspection = {"id_rows": {"ids": [10, 20, None]}}
    assert workload_save(actor=actor, version=version, document=DOCUMENT).number == 1
