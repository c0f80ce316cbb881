"""`manage.py samples --file PATH`: two sample business units with two teams each, on the first start in embedded mode.

Refuses outside embedded mode: no account or password is ever made there by itself. Makes nothing when any account
exists. Its last line says whether PATH tells how to sign in to this database. The password is drawn at random and left
in PATH, which only its owner may read. It is on the disk before the accounts are in the database: a kill in between
loses no password.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from fuseworks.accounts.authentication import token_sha256
from fuseworks.accounts.models import ApiToken, BusinessUnit, Membership, Role, Scope, Team, User
from fuseworks.accounts.permissions import Actor
from fuseworks.accounts.services import token_create

UNITS = {
    "Advertising": {"ads-ranking": "Ads ranking", "ads-retrieval": "Ads retrieval"},
    "Search": {"search-ranking": "Search ranking", "search-relevance": "Search relevance"},
}
ROLES = (Role.OWNER, Role.MEMBER)
DEMO_TEAM = "ads-ranking"
KNOWN, UNKNOWN = "sample teams", "no sample teams"


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", type=Path, required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        if not getattr(settings, "EMBEDDED", False):
            raise CommandError("Sample accounts are made in embedded mode only; use create_owner.")
        path: Path = options["file"]
        draft = path.with_name(path.name + ".new")
        if User.objects.exists():
            if _is_of_this_database(draft):  # after a kill between commit and rename
                draft.replace(path)
        else:
            with transaction.atomic():
                _write(draft, make_samples())
            draft.replace(path)
        self.stdout.write(KNOWN if _is_of_this_database(path) else UNKNOWN)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.unlink(missing_ok=True)  # what a run left that was killed before its commit
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _is_of_this_database(path: Path) -> bool:
    """One whose token is not known was never committed, or belongs to another database."""
    if not path.exists():
        return False
    token = json.loads(path.read_text())["demo"]["token"]
    return ApiToken.objects.filter(token_sha256=token_sha256(token)).exists()


@transaction.atomic
def make_samples() -> dict[str, Any]:
    """The people that were made, their password, and an API token of the demo's member."""
    password = secrets.token_urlsafe(9)
    people = []
    for unit_name, teams in UNITS.items():
        unit = BusinessUnit.objects.create(name=unit_name, slug=unit_name.lower())
        for slug, name in teams.items():
            team = Team.objects.create(business_unit=unit, name=name, slug=slug)
            for role in ROLES:
                email = f"{slug}-{role}@example.com"
                user = User.objects.create_user(email, password, name=f"{name}, {role}")
                Membership.objects.create(user=user, team=team, role=role)
                people.append({"email": email, "role": str(role), "team": slug, "business_unit": unit_name})
    member = User.objects.get(email=f"{DEMO_TEAM}-{Role.MEMBER}@example.com")
    issued = token_create(
        actor=Actor(member),
        name="demo",
        team=Team.objects.get(slug=DEMO_TEAM),
        scopes=(Scope.READ, Scope.SUBMIT, Scope.RECIPES),
        expires_in_days=None,
    )
    demo = {"email": member.email, "team": DEMO_TEAM, "token": issued.token}
    return {"password": password, "people": people, "demo": demo}
