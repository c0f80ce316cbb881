"""Every error id that the code names has a text and a remedy, and every text is used.

The client is left out: it imports nothing of the optimizer, so its few own ids have their texts beside them.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path

import optimizer
from optimizer.errors import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
ID = re.compile(r"[\"']([a-z_]+:(?:user|ours|usage):[a-z0-9-]+)[\"']")


def named_ids() -> Counter[str]:
    rooms = ["optimizer", "kernels", "workers", "platform"]
    texts = [path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py")]
    return Counter(match for text in texts for match in ID.findall(text))


def load_catalogues() -> None:
    for module in pkgutil.walk_packages(optimizer.__path__, "optimizer."):
        if module.name.rpartition(".")[2] == "errors":
            importlib.import_module(module.name)


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
