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
        "accounts:usage:last-owner-of": (
            409,
            "Without this account these teams would be left without an owner: {teams}.",
            "Make another member of each an owner first, then close the account.",
        ),
        "accounts:usage:wrong-password": (
            400,
            "This is not the password of the account.",
            "Type the password by which you sign in; reset it if you do not know it any more.",
        ),
        "accounts:usage:no-account": (
            404,
            "There is no open account with the address {email}.",
            "Check the address: it is the one by which its owner signs in.",
        ),
        "accounts:usage:operators-only": (
            403,
            "Only operators of this installation may do this.",
            "Ask an operator. One is named on the server: manage.py operator --email ADDRESS.",
        ),
        "accounts:usage:size": (
            400,
            "{text} is no size.",
            "Write a number and a unit, as 50 GiB or 512 MiB; a number alone is bytes.",
        ),
        "accounts:usage:team-name-taken": (
            409,
            "{unit} has a team called {name} already.",
            "Choose another name.",
        ),
        "accounts:usage:bad-token": (
            401,
            "This API token is not known here, is over or was revoked.",
            "Make another one on the tokens page of this very site, and send it whole.",
        ),
        "accounts:usage:session-only": (
            403,
            "API tokens cannot make others: sign in on the site for that.",
            "Make the token on your tokens page.",
        ),
        "accounts:usage:key-reused": (
            422,
            "The Idempotency-Key {key} came with another request before.",
            "Send the same key only to repeat the very same request; a new one takes a new key.",
        ),
        "accounts:usage:token-name-taken": (
            409,
            "You have a token called {name} already.",
            "Choose another name, or revoke that token first.",
        ),
    }
)
