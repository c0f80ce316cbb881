"""Renaming a team, what its page tells of its quota, and who changes quotas."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from fuseworks.accounts.models import AuditEntry, Team, User
from fuseworks.accounts.sizes import bytes_of
from fuseworks.core.errors import PlatformError
from fuseworks.registry.models import Upload
from fuseworks.registry.usage import usage, usages
from fuseworks.runs.models import Artifact
from tests.platform.factories import (
    api_for,
    client_for,
    make_member,
    make_model,
    make_run,
    make_team,
    make_token,
    make_unit,
    make_user,
    make_version,
)

pytestmark = pytest.mark.django_db
MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def team() -> Team:
    return make_team("ads-ranking", make_unit("Ads"))


@pytest.fixture
def operator() -> User:
    return make_user("operator@example.com", is_staff=True)


def fill(team: Team) -> None:
    """Two versions of 3 MiB and 1 MiB, one of 5 MiB that was deleted, a package of 2 MiB, an upload that announced
    4 MiB; two runs queued, one running, one over: 10 MiB that count."""
    model = make_model(team)
    one = make_version(model, size_bytes=3 * MIB)
    make_version(model, size_bytes=MIB)
    make_version(model, size_bytes=5 * MIB, deleted_at=one.created_at)
    runs = [make_run(one, status=status) for status in ("queued", "queued", "running", "succeeded")]
    Artifact.objects.create(
        run=runs[3], attempt=1, name="package.zip", size_bytes=2 * MIB, sha256="0" * 64, storage_key="k"
    )
    Upload.objects.create(
        team=team, model=model, model_name="m", filename="m.py", length_bytes=4 * MIB, expires_at=one.created_at
    )


def test_a_rename_keeps_every_address(team: Team) -> None:
    owner = make_member(team, "owner")
    run = make_run(make_version(make_model(team)))
    client = client_for(owner)
    answer = client.post("/teams/ads-ranking/rename/", {"name": "Feed ranking"}, follow=True)
    assert answer.redirect_chain == [("/teams/ads-ranking/", 302)]
    assert "The team is now called Feed ranking. Its address stays." in answer.content.decode()
    team.refresh_from_db()
    assert (team.name, team.slug) == ("Feed ranking", "ads-ranking")
    assert "Feed ranking" in client.get(f"/runs/{run.pk}/").content.decode()
    entry = AuditEntry.objects.get(action="team.rename")
    assert (entry.team, entry.actor, entry.detail) == (team, owner, {"before": "Ads ranking", "to": "Feed ranking"})


def test_the_same_name_again_notes_nothing_and_other_letters_case_is_a_rename(team: Team) -> None:
    api = api_for(make_member(team, "owner"))
    assert api.patch("/api/v1/teams/ads-ranking/", {"name": "Ads ranking"}).status_code == 200
    assert not AuditEntry.objects.exists()
    assert api.patch("/api/v1/teams/ads-ranking/", {"name": "Ads Ranking"}).json()["name"] == "Ads Ranking"
    assert AuditEntry.objects.get().detail["to"] == "Ads Ranking"


def test_a_name_of_another_team_of_the_unit_is_refused_at_the_field_and_one_of_another_unit_is_not(team: Team) -> None:
    make_team("ads-retrieval", team.business_unit)
    make_team("search-ranking", make_unit("Search"))
    client = client_for(make_member(team, "owner"))
    text = client.post("/teams/ads-ranking/rename/", {"name": "ADS RETRIEVAL"}).content.decode()
    assert "Ads has a team called ADS RETRIEVAL already" in text and 'value="ADS RETRIEVAL"' in text
    assert client.post("/teams/ads-ranking/rename/", {"name": "Search ranking"}).status_code == 302
    assert Team.objects.get(slug="ads-ranking").name == "Search ranking"


def test_what_counts_is_told_by_what_it_is_of(team: Team) -> None:
    fill(team)
    found = usage(team=team)
    assert (found.versions, found.versions_bytes) == (2, 4 * MIB)
    assert (found.left, found.left_bytes) == (1, 2 * MIB)
    assert (found.announced, found.announced_bytes) == (1, 4 * MIB)
    assert found.stored_bytes == 10 * MIB
    assert (found.runs_queued, found.runs_running) == (2, 1)


def test_the_use_of_many_teams_takes_as_many_queries_as_of_one(
    team: Team, django_assert_num_queries: pytest.FixtureRequest
) -> None:
    fill(team)
    empty = make_team()
    with django_assert_num_queries(4):  # type: ignore[operator]
        found = usages(teams=[team, empty])
    assert (found[team.pk].stored_bytes, found[empty.pk].stored_bytes) == (10 * MIB, 0)
    assert (found[empty.pk].runs_queued, found[empty.pk].share) == (0, 0.0)


def test_a_quota_of_nothing_has_no_share_and_is_used_up(team: Team) -> None:
    team.quota_bytes = 0
    assert (usage(team=team).share, usage(team=team).is_over) == (None, True)


@pytest.mark.parametrize("role", ["viewer", "owner"])
def test_the_teams_page_shows_the_use_with_units_to_everybody_in_it(team: Team, role: str) -> None:
    fill(team)
    Team.objects.filter(pk=team.pk).update(quota_bytes=40 * MIB)
    text = client_for(make_member(team, role)).get("/teams/ads-ranking/").content.decode()
    for id_, told in {
        "stored": "10.0 MiB of 40.0 MiB (25.0 %)",
        "versions": "2 files, 4.00 MiB",
        "left": "1 file, 2.00 MiB",
        "announced": "1 file, 4.00 MiB",
        "runs": "2 queued, 1 running",
    }.items():
        assert f'id="usage-{id_}">{told}<' in text
    assert "the site&#x27;s default" not in text and "the site's default" not in text


def test_a_used_up_quota_is_said(team: Team) -> None:
    fill(team)
    Team.objects.filter(pk=team.pk).update(quota_bytes=10 * MIB)
    assert "The quota is used up" in client_for(make_member(team, "viewer")).get("/teams/ads-ranking/").content.decode()


def test_the_api_tells_the_use(team: Team) -> None:
    fill(team)
    found = api_for(make_member(team, "viewer")).get("/api/v1/teams/ads-ranking/").json()["usage"]
    assert (found["stored_bytes"], found["quota_is_default"]) == (10 * MIB, True)
    assert (found["runs_queued"], found["runs_running"]) == (2, 1)


@pytest.mark.parametrize(
    ("text", "size"),
    [("50 GiB", 50 * GIB), ("512mib", 512 * MIB), ("1048576", MIB), (" 1.5 KiB ", 1536), ("0", 0), ("3 B", 3)],
)
def test_a_size_is_a_number_and_a_binary_unit(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["50 GB", "fifty", "-1", "1e9", "50 iB", "2000 PiB", "", "9" * 40, "١ GiB x"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(PlatformError) as caught:
        bytes_of(text)
    assert caught.value.id == "accounts:usage:size"


def test_an_operator_changes_a_quota_on_a_page_and_it_stands_in_the_teams_log(team: Team, operator: User) -> None:
    client = client_for(operator)
    listed = client.get("/quotas/").content.decode()
    assert "Ads ranking" in listed and "/quotas/ads-ranking/" in listed
    answer = client.post("/quotas/ads-ranking/", {"quota": "5 GiB"}, follow=True)
    assert "The quota of Ads ranking is now 5.00 GiB." in answer.content.decode()
    entry = AuditEntry.objects.get(team=team)
    assert (entry.action, entry.actor) == ("team.change_quota", operator)
    assert entry.detail == {"before_bytes": None, "to_bytes": 5 * GIB}
    client.post("/quotas/ads-ranking/", {"quota": ""})
    team.refresh_from_db()
    assert team.quota_bytes is None


def test_a_quota_that_is_no_size_is_told_at_the_field(team: Team, operator: User) -> None:
    text = client_for(operator).post("/quotas/ads-ranking/", {"quota": "5 GB"}).content.decode()
    assert 'id="id_quota_error"' in text and "as 50 GiB or 512 MiB" in text
    team.refresh_from_db()
    assert team.quota_bytes is None


def test_an_operator_sees_how_much_and_nothing_of_what(team: Team, operator: User) -> None:
    version = make_version(make_model(team, "Secret model"))
    client = client_for(operator)
    for address in ("/teams/ads-ranking/", f"/versions/{version.pk}/", "/teams/ads-ranking/audit/"):
        assert client.get(address).status_code == 404
    assert "Secret model" not in client.get("/quotas/").content.decode() + client.get("/models/").content.decode()


def test_an_owner_of_the_team_is_no_operator(team: Team) -> None:
    client = client_for(make_member(team, "owner"))
    for answer in (client.get("/quotas/"), client.post("/quotas/ads-ranking/", {"quota": "5 GiB"})):
        assert answer.status_code == 403
        assert "manage.py operator" in answer.content.decode()
    text = client.get("/teams/ads-ranking/").content.decode()
    assert "/quotas/" not in text and "An operator of this installation changes the quota." in text


def test_the_api_lists_and_changes_quotas_for_operators(team: Team, operator: User) -> None:
    api = api_for(operator)
    (row,) = api.get("/api/v1/quotas/").json()["results"]
    assert (row["team"], row["business_unit"], row["usage"]["quota_is_default"]) == ("ads-ranking", "ads", True)
    changed = api.patch("/api/v1/quotas/ads-ranking/", {"quota_bytes": GIB}).json()
    assert (changed["usage"]["quota_bytes"], changed["usage"]["quota_is_default"]) == (GIB, False)
    assert api.patch("/api/v1/quotas/ads-ranking/", {"quota_bytes": -1}).status_code == 400
    assert api.patch("/api/v1/quotas/nowhere/", {"quota_bytes": 1}).status_code == 404


def test_a_token_of_an_operator_needs_to_manage_and_to_be_good_everywhere(team: Team, operator: User) -> None:
    make_member(team, "owner", operator)
    allowed = make_token(operator)
    refused = [make_token(operator, scopes=("read", "submit")), make_token(operator, team)]
    assert api_for(allowed).get("/api/v1/quotas/").status_code == 200
    for token in refused:
        answer = api_for(token).patch("/api/v1/quotas/ads-ranking/", {"quota_bytes": 1})
        assert (answer.status_code, answer.json()["id"]) == (403, "accounts:usage:operators-only")


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue().strip()


def test_the_command_tells_and_changes_a_quota(team: Team) -> None:
    fill(team)
    assert run("quota", "--team", "ads-ranking") == "ads-ranking: 10.0 MiB of 100 GiB, the site's default."
    assert run("quota", "--team", "ads-ranking", "--set", "1 GiB") == "ads-ranking: 10.0 MiB of 1.00 GiB."
    entry = AuditEntry.objects.get(team=team)
    assert (entry.action, entry.actor, entry.detail["to_bytes"]) == ("team.change_quota", None, GIB)
    assert run("quota", "--team", "ads-ranking", "--set", "default").endswith("the site's default.")


@pytest.mark.parametrize("arguments", [["--team", "nowhere"], ["--team", "ads-ranking", "--set", "a lot"]])
def test_the_command_refuses_what_is_no_team_or_no_size(team: Team, arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        run("quota", *arguments)


def test_operators_are_made_and_unmade_on_the_server_only() -> None:
    user = make_user("ann@example.com")
    assert run("operator", "--email", "Ann@example.com") == "ann@example.com is an operator."
    user.refresh_from_db()
    assert (user.is_staff, user.is_superuser) == (True, False)
    assert run("operator", "--email", "ann@example.com", "--withdraw") == "ann@example.com is not an operator."
    actions = AuditEntry.objects.order_by("created_at").values_list("action", "detail__email")
    assert list(actions) == [("operator.appoint", "ann@example.com"), ("operator.withdraw", "ann@example.com")]
    with pytest.raises(CommandError, match="no open account"):
        run("operator", "--email", "nobody@example.com")
