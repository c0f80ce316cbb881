"""What changes accounts: each service checks the actor's right, does its work and notes it, in one transaction."""

from __future__ import annotations

from fuseworks.accounts import errors  # noqa: F401  (fills the catalogue)
from fuseworks.accounts.services.closing import account_close, account_close_by_operator, teams_without_another_owner
from fuseworks.accounts.services.founding import owner_found
from fuseworks.accounts.services.invitations import (
    Invited,
    invitation_accept,
    invitation_accept_as_new,
    invitation_create,
    invitation_revoke,
)
from fuseworks.accounts.services.members import member_remove, member_role_change, team_leave
from fuseworks.accounts.services.people import (
    note_password_change,
    note_reset_request,
    profile_change,
    tokens_revoke_all,
)
from fuseworks.accounts.services.quotas import operator_appoint, quota_change
from fuseworks.accounts.services.teams import team_create, team_rename
from fuseworks.accounts.services.tokens import Issued, token_create, token_revoke

__all__ = [
    "Invited",
    "Issued",
    "account_close",
    "account_close_by_operator",
    "invitation_accept",
    "invitation_accept_as_new",
    "invitation_create",
    "invitation_revoke",
    "member_remove",
    "member_role_change",
    "note_password_change",
    "note_reset_request",
    "operator_appoint",
    "owner_found",
    "profile_change",
    "quota_change",
    "team_create",
    "team_leave",
    "team_rename",
    "teams_without_another_owner",
    "token_create",
    "token_revoke",
    "tokens_revoke_all",
]
