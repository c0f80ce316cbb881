"""Which passes and backends there are and which targets are predicted for, as far as any worker ever told: the web
process cannot import them.

Not for what may be used at this moment: a backend that a worker lists as unavailable is known all the same.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from fuseworks.fleet.manifests import Manifest
from fuseworks.fleet.models import Worker

NEAREST = 3


@dataclass(frozen=True)
class Known:
    """Empty where no worker told any: then nothing is unknown."""

    passes: frozenset[str]
    backends: frozenset[str]
    predicts: frozenset[str] = frozenset()

    def unknown_passes(self, names: list[str]) -> list[str]:
        return [name for name in names if self.passes and name not in self.passes]

    def unknown_backends(self, names: list[str]) -> list[str]:
        return [name for name in names if self.backends and name not in self.backends]

    def cannot_predict(self, target: str) -> bool:
        return bool(self.predicts) and target not in self.predicts


def known(*, target: str | None = None) -> Known:
    """By the workers of `target`, or by all."""
    workers = Worker.objects.all() if target is None else Worker.objects.filter(target=target)
    told = [Manifest.of(one) for one in workers.values_list("manifest", flat=True) if isinstance(one, dict)]
    return Known(
        passes=frozenset(item.name for manifest in told for item in manifest.passes),
        backends=frozenset(item.name for manifest in told for item in manifest.backends),
        predicts=frozenset(target for manifest in told for target in manifest.predicts),
    )


def nearest(name: str, names: frozenset[str]) -> str:
    """Those that are spelt most like it, or all where none is."""
    return ", ".join(difflib.get_close_matches(name, sorted(names), n=NEAREST, cutoff=0.5) or sorted(names))
