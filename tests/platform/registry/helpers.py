"""What several tests of the registry's pages and uploads share."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.registry.models import Upload
from fuseworks.registry.services import upload_append, upload_begin

SOURCE = b"class Model: ...\n"
INSPECTION = {
    "format": "py",
    "sha256": "0" * 64,
    "size_bytes": 17,
    "parameters": 1234567,
    "parameter_bytes": 4938268,
    "operations": {"aten.linear.default": 3, "aten.relu.default": 7},
    "outputs": [{"name": "ctr", "dtype": "float32", "shape": ["batch", 1]}],
    "dynamic": ["batch"],
    "notes": ["It draws random numbers in inference."],
}


def text(response: Any) -> str:
    """What a reader sees, roughly: without tags, spaces folded."""
    body = re.sub(r"(?s)<script.*?</script>", "", response.content.decode())
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def value_of(response: Any, name: str) -> str | None:
    found = re.search(rf'<input[^>]*name="{name}"[^>]*value="([^"]*)"', response.content.decode())
    return found[1] if found else None


def wait_for(condition: Callable[[], Any], within_s: float = 10) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def refused(call: Callable[[], Any]) -> PlatformError:
    with pytest.raises(PlatformError) as caught:
        call()
    return caught.value


def begin(actor: Actor, team: Team, length_bytes: int = len(SOURCE), **fields: Any) -> Upload:
    fields = {"filename": "din.py", "model_name": "DIN", **fields}
    return upload_begin(actor=actor, team=team, length_bytes=length_bytes, **fields)


def append(actor: Actor, upload: Upload, data: bytes, offset: int = 0, **fields: Any) -> int:
    return upload_append(
        actor=actor, upload=upload, offset=offset, stream=io.BytesIO(data), length_bytes=len(data), **fields
    )


def incoming_files(storage: Path) -> list[Path]:
    return list((storage / "incoming").iterdir())
