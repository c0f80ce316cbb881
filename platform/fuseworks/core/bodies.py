"""JSON bodies of requests: a field that nobody knows is refused; one that is misspelt would be ignored in silence.

Not for what workers send: one of a later version may tell more than this site knows, and must not fail over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers


class Body(serializers.Serializer[Any]):
    """A field that is not listed here is refused."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(str(name) for name in data if name not in self.fields)
            if unknown:
                known = ", ".join(self.fields)
                raise serializers.ValidationError({name: [f"no such field; there are: {known}"] for name in unknown})
        return super().to_internal_value(data)
