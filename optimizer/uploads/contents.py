"""What a zip is for, by the names in its listing: a program of torch.export, or the files around one model."""

from __future__ import annotations

import re
from typing import NamedTuple

from optimizer.uploads.zip_listing import Listing

PROGRAM = re.compile(r"models/[A-Za-z0-9_-]{1,100}\.json")
NOISE = re.compile(r"(^|/)(__MACOSX|\.DS_Store|__pycache__)(/|$)")


class Contents(NamedTuple):
    """`names` without what operating systems add; among them each `model.py` at the top or in one folder (`sources`)
    and each ONNX model (`models`)."""

    names: list[str]
    sources: list[str]
    models: list[str]


def is_program(listing: Listing) -> bool:
    """By torch.export's own mark, or by what only such an archive holds."""
    return "archive_format" in listing.inner or any(PROGRAM.fullmatch(name) for name in listing.inner)


def contents(listing: Listing) -> Contents:
    names = [name for name in listing.names if not NOISE.search(name)]
    sources = [name for name in names if name.rpartition("/")[2] == "model.py" and name.count("/") <= 1]
    return Contents(names, sources, [name for name in names if name.endswith(".onnx")])
