"""Reads a workload as the user wrote it: `get_workloads()`, `workload.yaml`, form and API all mean one schema."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

import optimizer.capturing.errors  # noqa: F401
from optimizer.errors import FuseworksError
from optimizer.spec import Mode, Workload


def parse_workload(document: Any, at: str, *, no_training: str | None = None) -> Workload:
    """One workload, or the first of a list of them. `no_training`: the format of an upload that cannot be trained.
    Raises FuseworksError."""
    if isinstance(document, Workload):
        return document
    if isinstance(document, (list, tuple)):
        if not document:
            raise FuseworksError("capturing:user:bad-workload", place=at, text="the list is empty")
        document = document[0]
    try:
        workload = Workload.model_validate(document)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or 'workload'}: {e['msg']}" for e in error.errors()[:3]]
        raise FuseworksError("capturing:user:bad-workload", place=at, text="; ".join(lines)) from error
    if workload.mode is Mode.TRAINING:
        if no_training is not None:
            raise FuseworksError("capturing:user:training-workload", place=at, format=no_training)
        missing = [name for name in ("loss", "optimizer") if getattr(workload, name) is None]
        if missing:
            raise FuseworksError("capturing:user:training-incomplete", place=at, missing=" and no ".join(missing))
    return workload
