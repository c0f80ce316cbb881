"""YAML that strangers wrote, read as plain data: no tags, aliases (the billion-laughs bomb), repeated keys or dates."""

from __future__ import annotations

from typing import Any

import yaml


class PlainLoader(yaml.SafeLoader):
    """SafeLoader without aliases and timestamps; a repeated key is an error, not the last one's silent victory."""

    yaml_implicit_resolvers = {  # noqa: RUF012 -- as PyYAML declares it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.composer.ComposerError(None, None, "anchors and aliases are not allowed", event.start_mark)
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


def read(text: str) -> Any:
    """Raises yaml.YAMLError (also for nesting without end)."""
    try:
        return yaml.load(text, Loader=PlainLoader)
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error
