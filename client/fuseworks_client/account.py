"""Which server the command speaks to, and with which token: the environment's, else what `fuseworks login` kept.

FUSEWORKS_URL and FUSEWORKS_TOKEN are for pipelines; people sign in once per machine. A token that was kept goes to the
server for which it was kept, never to another one that the environment names.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

URL, TOKEN, RETRY = "FUSEWORKS_URL", "FUSEWORKS_TOKEN", "FUSEWORKS_RETRY_S"
RETRY_S = 120.0


@dataclass(frozen=True)
class Account:
    """`url` without a slash at its end. The token is never printed."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"Account({self.url!r}, token not shown)"


def checked(url: str, token: str) -> Account:
    """Raises click.UsageError, which never repeats the token: errors of lower layers would."""
    url, token = url.strip().rstrip("/"), token.strip()  # a secret out of a file ends with a newline
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise click.UsageError(f"{url!r} is no address of a server, such as https://fuseworks.example")
    if not re.fullmatch(r"[!-~]+", token):
        raise click.UsageError(f"the token is {'not one word of ASCII characters' if token else 'empty'}")
    return Account(url, token)


def kept_at() -> Path:
    """Raises RuntimeError where the user has no home."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "fuseworks" / "account.json"


def keep(account: Account) -> Path:
    """In a file that only its owner reads. Raises OSError, RuntimeError."""
    path = kept_at()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)  # one that is there keeps the rights it has
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"url": account.url, "token": account.token}, file)
    partial.replace(path)
    return path


def forget() -> bool:
    """Whether there was one."""
    try:
        kept_at().unlink()
    except (FileNotFoundError, RuntimeError):
        return False
    return True


def account() -> Account:
    """Raises click.UsageError that says how to sign in."""
    url, token = os.environ.get(URL, "").strip(), os.environ.get(TOKEN, "").strip()
    if url and token:
        return checked(url, token)
    kept = _kept()
    if kept is None:
        missing = " and ".join(name for name, value in ((URL, url), (TOKEN, token)) if not value)
        raise click.UsageError(
            f"no server is known: run `fuseworks login URL`, or set {missing} (a token: tokens page)"
        )
    if url and not token and url.rstrip("/") != kept.url:
        raise click.UsageError(
            f"{URL} is {url}, but the token that is kept here belongs to {kept.url}: set {TOKEN}, or run "
            f"`fuseworks login {url}`"
        )
    return checked(url or kept.url, token or kept.token)


def retry_s() -> float:
    """How long a server that does not answer is asked again. Raises click.UsageError."""
    text = os.environ.get(RETRY, "").strip()
    try:
        value = float(text) if text else RETRY_S
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise click.UsageError(f"{RETRY} is {text!r}, which is no number of seconds")
    return value


def _kept() -> Account | None:
    """None when there is none, or none that can be read."""
    try:
        kept = json.loads(kept_at().read_text(encoding="utf-8"))
        return Account(str(kept["url"]), str(kept["token"]))
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None
