"""Runs of a version whose inspection failed: what waits for the same end fails with it, and no more are started."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.gates.models import GateCheck
from fuseworks.gates.rules import exit_code
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from fuseworks.runs.services import run_create, run_finish
from optimizer.errors import FuseworksError
from tests.platform import factories
from tests.platform.runs.steps import at, claimed, opened

pytestmark = pytest.mark.django_db


def inspection_ends(version: ModelVersion, **fields: Any) -> None:
    run = factories.make_run(version, purpose="inspect")
    run_finish(attempt=claimed(run), document=factories.result_document(purpose="inspect", **fields), now=at(30))


def failed(id_: str = "child:user:exception", status: str = "failed") -> dict[str, Any]:
    error = FuseworksError(id_, place="model.py:41", type="ValueError", text="no")
    return {"status": status, "problem": error.document()}


def statuses(*runs: Run) -> list[str]:
    for run in runs:
        run.refresh_from_db()
    return [run.status for run in runs]


def test_what_waits_ends_as_failed_with_the_inspections_cause_and_a_message_on_its_way_is_void(
    version: ModelVersion,
) -> None:
    waits, sent = factories.make_run(version), factories.make_run(version)
    message = opened(sent).attempt
    inspection_ends(version, **failed())
    assert statuses(waits, sent) == ["failed", "failed"]
    assert waits.problem is not None
    assert (waits.problem["id"], waits.problem["side"]) == ("runs:user:inspection-failed", "user")
    assert waits.problem["place"] == "model.py:41"
    assert waits.problem["message"].endswith(
        "is not run, because its inspection failed: The model's own code raised ValueError: no"
    )
    assert waits.problem["remedy"].startswith("Run the model by itself in Python with the same inputs")
    message.refresh_from_db()
    assert (message.state, message.reason) == ("ended", "its version's inspection failed")


def test_what_would_not_fail_alike_goes_on(version: ModelVersion) -> None:
    others = factories.make_run(factories.make_version(version.model, data=b"class Model: 2"))
    with_workload = factories.make_run(version, workload=factories.make_workload(version))
    again = factories.make_run(version, purpose="inspect")
    begun = factories.make_run(version, status="running")
    inspection_ends(version, **failed())
    assert statuses(others, with_workload, again, begun) == ["queued", "queued", "queued", "running"]


@pytest.mark.parametrize("fields", [{}, failed("child:ours:unexpected", "errored")], ids=["succeeded", "our fault"])
def test_an_inspection_that_did_not_find_the_model_at_fault_ends_nothing(
    version: ModelVersion, actor: Actor, fields: dict[str, Any]
) -> None:
    waits = factories.make_run(version)
    inspection_ends(version, **fields)
    assert statuses(waits) == ["queued"]
    assert run_create(actor=actor, version=version, purpose="optimize").status == "queued"


def test_a_gate_of_it_ends_with_the_models_fault(version: ModelVersion) -> None:
    check = GateCheck.objects.create(run=factories.make_run(version, purpose="compare"), max_latency_ratio=1.05)
    inspection_ends(version, **failed())
    check.refresh_from_db()
    assert (check.outcome, exit_code(check)) == ("no_result", 4)


def test_no_run_is_started_until_another_inspection_or_a_workload(version: ModelVersion, actor: Actor) -> None:
    inspection_ends(version, **failed())
    with pytest.raises(PlatformError) as caught:
        run_create(actor=actor, version=version, purpose="optimize")
    assert (caught.value.id, caught.value.status) == ("runs:user:inspection-failed", 409)
    workload = factories.make_workload(version)
    assert run_create(actor=actor, version=version, purpose="optimize", workload=workload).status == "queued"
    workload.runs.all().delete()
    workload.delete()
    assert run_create(actor=actor, version=version, purpose="inspect").status == "queued"
    assert run_create(actor=actor, version=version, purpose="optimize").status == "queued", "it ends, if that one fails"
