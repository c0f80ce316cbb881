"""The parts that a timeline's bins are made of: their words, and to which pools of time each belongs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext_lazy as _

from optimizer.result import Finding

# in the order in which they lie on one another, from the bottom
PARTS: dict[str, Any] = {
    "compute": _("computing"),
    "communication": _("communication alone"),
    "copies": _("copies alone"),
    "data_loading": _("idle: waits for data"),
    "synchronization": _("idle: after a synchronisation"),
    "host_operations": _("idle: the host is in operations"),
    "host_other": _("idle: the host is in Python, or not traced"),
    "launching": _("idle: launching"),
    "queued": _("idle: launched, waits for something else"),
}
KINDS: dict[str, Any] = {
    "idle": _("idle GPU"),
    "communication": _("communication"),
    "kernels": _("kernels"),
    "other": _("no time of its own"),
}
IDLE, KERNELS, EXPOSED = "idle: ", "kernels: ", "exposed communication"
COPIES = ("kernels: memcpy", "kernels: memset")


def parts_of(pools: Iterable[str]) -> set[str]:
    """Of the pools of time that a cause takes, the timeline's parts."""
    found = set()
    for pool in pools:
        if pool.startswith(IDLE):
            found.add(pool.removeprefix(IDLE))
        elif pool.startswith(KERNELS):
            found.add("copies" if pool in COPIES else "compute")
        elif pool == EXPOSED:
            found.add("communication")
    return found


def kind_of(finding: Finding) -> str:
    """By the pool that it takes most of."""
    if not finding.takes_ms:
        return "other"
    pool = max(finding.takes_ms, key=lambda name: finding.takes_ms[name])
    return "idle" if pool.startswith(IDLE) else "communication" if pool == EXPOSED else "kernels"
