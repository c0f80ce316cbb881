"""Workloads as text that people edit: YAML, of which JSON is a part."""

from __future__ import annotations

from typing import Any

import yaml

from fuseworks.core.errors import PlatformError
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue

MAX_CHARACTERS = 256 << 10


def parse(text: str) -> Any:
    """Raises PlatformError (`registry:user:workload`) with the line of what cannot be read."""
    if len(text) > MAX_CHARACTERS:
        raise PlatformError("registry:user:workload", text=f"it has more than {MAX_CHARACTERS >> 10} Ki characters")
    try:
        return yaml.load(text, Loader=_PlainLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else None
        reason = getattr(error, "problem", None) or str(error) or "it is nested too deeply"
        raise PlatformError("registry:user:workload", place=place, text=f"no YAML: {reason}") from error


def dump(document: dict[str, Any]) -> str:
    """Lists and short mappings on one line each."""
    text: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    return text


class _PlainLoader(yaml.SafeLoader):
    """Without aliases, by which a few lines become gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # type: ignore[no-untyped-call]
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not read: write the value out", mark)
        return super().compose_node(parent, index)
