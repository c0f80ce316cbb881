"""The first steps of an installation, before anybody can sign in: a business unit, a team and its owner.

Called by `manage.py create_owner` and where samples are made; never by a request.
"""

from __future__ import annotations

from django.db import transaction

from fuseworks.accounts.models import BusinessUnit, Membership, Role, Team, User
from fuseworks.accounts.permissions import Actor, audit
from fuseworks.accounts.services.invitations import user_create
from fuseworks.accounts.services.teams import free_slug, team_found


@transaction.atomic
def owner_found(
    *, business_unit: str, team: str, email: str, name: str = "", password: str | None = None
) -> Membership:
    """Makes what is missing of unit, team and account, and makes the account an owner of the team.

    `password` is only for an account that is not there yet; None with one that is. Raises PlatformError
    (`account-exists` for a password of an account that is there, `weak-password`).
    """
    email = email.strip().lower()
    user = User.objects.filter(email__iexact=email).first()
    if user is None or password is not None:
        user = user_create(email=email, name=name, password=password or "")
    unit = BusinessUnit.objects.filter(name__iexact=business_unit).first()
    if unit is None:
        unit = BusinessUnit.objects.create(name=business_unit, slug=free_slug(business_unit, BusinessUnit))
    found = Team.objects.filter(business_unit=unit, name__iexact=team).first()
    if found is None:
        found = team_found(business_unit=unit, name=team, owner=user)
    membership, _ = Membership.objects.update_or_create(user=user, team=found, defaults={"role": Role.OWNER})
    audit(Actor(user), "team.found", team=found, target=found, email=email)
    return membership
