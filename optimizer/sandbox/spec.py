"""What a child gets and what it may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one child may take. Bytes and counts.

    `memory_bytes` bounds the whole tree of processes (private, shared and tmpfs pages); `processes` counts threads too.
    `file_bytes` bounds one file, in the scratch or handed over; `answer_bytes` the arrays of one answer.
    """

    memory_bytes: int = 8 << 30
    scratch_bytes: int = 4 << 30
    scratch_files: int = 50_000
    shm_bytes: int = 256 * MIB
    file_bytes: int = 4 << 30
    collected_bytes: int = 8 << 30
    collected_files: int = 2_000
    answer_bytes: int = 4 << 30
    log_bytes: int = 8 * MIB
    processes: int = 256
    open_files: int = 1024


@dataclass(frozen=True)
class ChildSpec:
    """`inputs` are host paths made visible read-only, by name; `environment` adds to the scrubbed one.

    `devices` are device nodes (`/dev/nvidia0`) that the child may open and control, `device_reads` what their driver
    reads beside the system's own folders: written for GPUs (`optimizer/devices.py`), not tried on one yet.
    `trusted` starts it unconfined: for the project's own code and, on request, for a user's own file.
    """

    name: str
    inputs: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    trusted: bool = False
    devices: Sequence[str] = ()
    device_reads: Sequence[str] = ()
