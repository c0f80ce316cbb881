"""A recipe for tests, as an optimize run leaves it."""

from __future__ import annotations

from typing import Any


def document(name: str = "din-split", version: str = "1.0.0", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fuseworks.io/v1",
        "kind": "Recipe",
        "metadata": {"name": name, "version": version, "title": "Split target attention", **metadata},
        "applies_to": {"target": {"kind": "cpu"}, "graph": {"all": [{"pass": "split_target_attention"}]}},
        "steps": [{"pass": "split_target_attention"}, {"backend": "aot_inductor"}],
    }
