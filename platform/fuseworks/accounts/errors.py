"""Errors of the accounts app."""

from __future__ import annotations

from fuseworks.core.errors import catalogue

catalogue(
    {
        "accounts:usage:last-owner": (
            409,
            "{team} would be left without an owner.",
            "Make another member an owner first.",
        ),
        "accounts:usage:role-above-own": (
            403,
            "You cannot give the role {role}: yours is {own}.",
            "Give a role up to your own, or ask somebody who has a higher one.",
        ),
        "accounts:usage:already-member": (
            409,
            "{email} is in {team} already.",
            "Change the role in the list of members instead.",
        ),
        "accounts:usage:already-invited": (
            409,
            "{email} is invited to {team} already.",
            "Revoke that invitation first if it should be made anew.",
        ),
        "accounts:usage:too-many-invitations": (
            409,
            "{team} has {limit} open invitations, which is the most there may be.",
            "Revoke those that nobody will accept.",
        ),
        "accounts:usage:invitation-over": (
            404,
            "This invitation is not known, has expired, was revoked or was accepted already.",
            "Ask an owner of the team for a new one.",
        ),
        "accounts:usage:account-exists": (
            409,
            "There is an account with the address {email} already.",
            "Sign in with it, then open the invitation's link again.",
        ),
        "accounts:usage:weak-password": (
            400,
            "The password is not good enough: {text}",
            "Choose a longer one that is not a common word.",
        ),
        "accounts:usage:no-unit-to-found-in": (
            403,
            "You own no team in {unit}: only owners of its teams make new ones there.",
            "Ask an owner of a team of {unit}.",
        ),
        "accounts:usage:team-name-taken": (
            409,
            "{unit} has a team called {name} already.",
            "Choose another name.",
        ),
        "accounts:usage:session-only": (
            403,
            "API tokens cannot make others: sign in on the site for that.",
            "Make the token on your tokens page.",
        ),
        "accounts:usage:token-name-taken": (
            409,
            "You have a token called {name} already.",
            "Choose another name, or revoke that token first.",
        ),
    }
)
