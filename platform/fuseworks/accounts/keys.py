"""Draws the secrets that are handed out once: API tokens and the links of invitations. Only their hashes are stored."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from fuseworks.accounts.authentication import token_sha256

# A fixed beginning lets scanners of source code find a token that somebody committed by mistake.
TOKEN_BEGINNING = "fw_"
TOKEN_BYTES = 32  # 43 characters
PREFIX_CHARACTERS = 12


@dataclass(frozen=True)
class Key:
    """`plain` is told once and must not be logged or stored; `sha256` is."""

    plain: str
    sha256: str

    @property
    def prefix(self) -> str:
        return self.plain[:PREFIX_CHARACTERS]

    def __repr__(self) -> str:
        return "Key(...)"


def draw_token() -> Key:
    plain = TOKEN_BEGINNING + secrets.token_urlsafe(TOKEN_BYTES)
    return Key(plain, token_sha256(plain))


def draw_link() -> Key:
    plain = secrets.token_urlsafe(TOKEN_BYTES)
    return Key(plain, token_sha256(plain))
