"""Workloads as text that people edit: YAML, of which JSON is a part."""

from __future__ import annotations

from typing import Any

import yaml

from fuseworks.core.errors import PlatformError
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue
from optimizer import plain_yaml


def parse(text: str) -> Any:
    """Raises PlatformError (`registry:user:workload`) with the line of what cannot be read."""
    try:
        return plain_yaml.read(text)
    except plain_yaml.NotPlain as error:
        place = f"line {error.line}, column {error.column}" if error.line is not None else None
        raise PlatformError("registry:user:workload", place=place, text=f"no plain YAML: {error.reason}") from error


def dump(document: dict[str, Any]) -> str:
    """Lists and short mappings on one line each."""
    text: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    return text
