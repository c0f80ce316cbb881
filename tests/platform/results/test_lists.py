"""A result's document and its samples are megabytes: whatever lists many runs leaves them in the database."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.platform import factories

pytestmark = pytest.mark.django_db
# one document may be read for what the page says of it; those of a list may not
ONE = "LIMIT 1"
BODIES = ('"results_runresult"."document",', '"results_runresult"."curves",')


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/runs/",
        "/models/{model}/",
        "/versions/{version}/",
        "/comparisons/",
        "/api/v1/runs/",
    ],
)
def test_no_list_of_runs_reads_their_results_bodies(address: str) -> None:
    version = factories.make_version(factories.make_model(factories.make_team()))
    factories.make_workload(version)
    runs = [factories.make_run(version, status="succeeded") for _ in range(2)]
    for run in runs:
        factories.make_result(run)
    reader = factories.client_for(factories.make_member(version.model.team))
    with CaptureQueriesContext(connection) as asked:
        shown = reader.get(address.format(model=version.model_id, version=version.pk))
    assert shown.status_code == 200
    assert str(runs[0].pk) in shown.content.decode()
    with_bodies = [query["sql"] for query in asked if any(body in query["sql"] for body in BODIES)]
    assert [sql for sql in with_bodies if not sql.endswith(ONE)] == []
