"""A worker's settings, all from the environment. Nothing else of a worker reads it, but to make its children's.

REDIS_URL                  the broker
FUSEWORKS_WORKER_API_URL   the platform, for saying hello; each run's message carries its own address
FUSEWORKS_WORKER_TOKEN     what lets a worker say hello
FUSEWORKS_TARGET           the queue that it serves (cpu)
FUSEWORKS_WORKER_NAME      unique, stable over restarts (host and target; two workers of one target on one host set it)
FUSEWORKS_WORKER_SCRATCH   where runs are worked: room for uploads and packages (a folder of this user below /tmp)
FUSEWORKS_DEVICE_LOCKS     shared by all workers of a host that use the same devices (in the scratch)
CUDA_VISIBLE_DEVICES       which GPU is this worker's, where the host has several (the first); its lock is on that one
FUSEWORKS_COORDINATOR      replaces `python -m optimizer`: another installation, or a stand-in in tests
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workers.messages import TARGET

MIN_TOKEN_CHARACTERS = 16


class SettingsError(Exception):
    """What is missing or wrong, with the variable's name."""


@dataclass(frozen=True)
class Settings:
    """Secrets are in no text form of it."""

    redis_url: str = field(repr=False)
    api: str
    token: str = field(repr=False)
    name: str
    host: str
    target: str
    coordinator: tuple[str, ...]
    scratch: Path
    device_locks: Path
    gpu: str = ""

    @property
    def device(self) -> str:
        """What a run locks: two workers with a GPU each do not wait for one another."""
        return f"{self.target} {self.gpu or '0'}" if self.target.startswith("cuda:") else self.target


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Raises SettingsError."""
    given = os.environ if environment is None else environment
    host = socket.gethostname()
    target = given.get("FUSEWORKS_TARGET") or "cpu"
    if not TARGET.fullmatch(target):
        raise SettingsError(f"FUSEWORKS_TARGET is cpu, cuda:sm_NN or rocm:gfxNNN, not {target!r}")
    token = _required(given, "FUSEWORKS_WORKER_TOKEN", "the token that the web site has under the same name")
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise SettingsError(f"FUSEWORKS_WORKER_TOKEN has at least {MIN_TOKEN_CHARACTERS} characters")
    own_folder = Path(tempfile.gettempdir()) / f"fuseworks-worker-{os.geteuid()}"
    scratch = Path(given.get("FUSEWORKS_WORKER_SCRATCH") or own_folder).absolute()
    override = given.get("FUSEWORKS_COORDINATOR")
    return Settings(
        redis_url=_required(given, "REDIS_URL", "the broker, redis://host:6379/0"),
        api=_required(given, "FUSEWORKS_WORKER_API_URL", "the web site, as this machine reaches it"),
        token=token,
        name=given.get("FUSEWORKS_WORKER_NAME") or f"{host} {target}",
        host=host,
        target=target,
        coordinator=tuple(shlex.split(override)) if override else (sys.executable, "-m", "optimizer"),
        scratch=scratch,
        device_locks=Path(given.get("FUSEWORKS_DEVICE_LOCKS") or scratch / "devices").absolute(),
        gpu=given.get("CUDA_VISIBLE_DEVICES", ""),
    )


def _required(given: Mapping[str, str], name: str, what: str) -> str:
    value = given.get(name, "")
    if not value:
        raise SettingsError(f"Set the environment variable {name}: {what}")
    return value
