"""The compose file as data, with the variables of `.env.example` filled in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    "FUSEWORKS_SECRET_KEY": "k" * 25 + "5ecret-with-more-than-50-characters",
    "FUSEWORKS_DATABASE_PASSWORD": "database-password",
    "FUSEWORKS_BROKER_PASSWORD": "broker-password",
    "FUSEWORKS_WORKER_TOKEN": "w" * 43,
    "FUSEWORKS_HOSTS": "fuseworks.example",
    "FUSEWORKS_PUBLIC_URL": "https://fuseworks.example",
    "FUSEWORKS_TLS_FOLDER": "./tls",
}
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[?-])(?P<text>[^}]*))?\}")


def services() -> dict[str, Any]:
    """As compose would read them: anchors merged, variables filled in. Raises KeyError for one that is required."""
    text = _VARIABLE.sub(_filled, (ROOT / "docker-compose.yml").read_text()).replace("$$", "$")
    document: dict[str, Any] = yaml.safe_load(text)
    found: dict[str, Any] = document["services"]
    return found


def _filled(match: re.Match[str]) -> str:
    name, kind = match["name"], match["kind"]
    return ENVIRONMENT.get(name, match["text"]) if kind == "-" else ENVIRONMENT[name]
