"""Names of downloads: a model may be called anything that can be printed."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from fuseworks.runs.models import Status
from tests.platform.factories import client_for, make_member, make_model, make_result, make_run, make_team, make_version

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("address", "suffix"),
    [("log/", "log.txt"), ("comparison/?format=csv", "result.csv"), ("comparison/?format=json", "result.json")],
)
def test_a_model_with_a_chinese_name_gives_its_name_to_what_is_downloaded(address: str, suffix: str) -> None:
    team = make_team()
    member = make_member(team)
    run = make_run(make_version(make_model(team, "推荐模型")), status=Status.SUCCEEDED)
    make_result(run)
    answer = client_for(member).get(f"/runs/{run.pk}/{address}")
    name = f"推荐模型-v1-{str(run.pk)[:8]}-{suffix}"
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"] == f"attachment; filename*=utf-8''{quote(name)}"
