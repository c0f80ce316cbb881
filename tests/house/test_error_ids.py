"""Every error id that the code names has a text and a remedy, and every text is used.

The client is left out: it imports nothing of the optimizer, so its few own ids have their texts beside them.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

from optimizer.errors import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
ID = re.compile(r"[\"']([a-z_]+:(?:user|ours|usage):[a-z0-9-]+)[\"']")


def named_ids() -> Counter[str]:
    rooms = ["optimizer", "kernels", "workers", "platform"]
    texts = [path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py")]
    return Counter(match for text in texts for match in ID.findall(text))


def load_catalogues() -> None:
    """Imports every module that adds to the catalogue."""
    for room, root in (("optimizer", ROOT), ("workers", ROOT), ("platform/fuseworks", ROOT / "platform")):
        for path in (ROOT / room).rglob("*.py"):
            if re.search(r"^catalogue\(", path.read_text(), re.MULTILINE):
                importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


def test_every_named_id_is_catalogued() -> None:
    load_catalogues()
    assert not sorted(set(named_ids()) - set(CATALOGUE))


def test_every_catalogued_id_is_named_beyond_the_catalogue() -> None:
    load_catalogues()
    named = named_ids()
    assert not sorted(id_ for id_ in CATALOGUE if named[id_] < 2)


def test_every_entry_says_what_to_do() -> None:
    load_catalogues()
    assert not sorted(id_ for id_, entry in CATALOGUE.items() if not entry.message.strip() or not entry.remedy.strip())
