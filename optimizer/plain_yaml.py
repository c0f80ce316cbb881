"""YAML that strangers wrote, read as plain data: no tags, anchors, aliases (the billion-laughs bomb), repeated keys or
dates. JSON is a part of it. What the data means is the reader's matter: `recipe/document.py`, a workload's text.
"""

from __future__ import annotations

from typing import Any

import yaml

MAX_CHARACTERS = 256 << 10


class NotPlain(Exception):
    """The text is no such YAML. `line` and `column` count from 1; None where it has no one place."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason if line is None else f"{reason} (line {line}, column {column})")
        self.reason, self.line, self.column = reason, line, column


def read(text: str) -> Any:
    """Raises NotPlain."""
    if len(text) > MAX_CHARACTERS:
        raise NotPlain(f"it has more than {MAX_CHARACTERS >> 10} Ki characters")
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        reason = error.problem or str(error)
        raise (NotPlain(reason, mark.line + 1, mark.column + 1) if mark else NotPlain(reason)) from error
    except RecursionError as error:
        raise NotPlain("it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:  # a number of thousands of digits is a ValueError
        raise NotPlain(str(error)) from error


class _Loader(yaml.SafeLoader):
    """SafeLoader without anchors and timestamps; a repeated key is an error, not the last one's silent victory."""

    yaml_implicit_resolvers = {  # noqa: RUF012 -- as PyYAML declares it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            reason = "anchors and aliases are not read: write the value out"
            raise yaml.composer.ComposerError(None, None, reason, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(None, None, "keys must be text", key_node.start_mark)
            if key_node.value in seen:
                text = f"the key {key_node.value!r} is repeated"
                raise yaml.constructor.ConstructorError(None, None, text, key_node.start_mark)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)
