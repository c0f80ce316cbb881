"""The facts of a diagnosis in groups, named for readers. A fact that is not known here is shown by its own name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from fuseworks.traces.reading.figures import figure

GROUPS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (
        _("The job"),
        {
            "ranks": _("ranks read"),
            "world_size": _("ranks of the job"),
            "devices": _("GPUs with events"),
            "device_names": _("GPU"),
            "steps": _("steps"),
            "step_ms": _("a step takes"),
            "span_ms": _("first to last GPU event"),
            "events": _("events"),
        },
    ),
    (
        _("Busy and idle"),
        {
            "gpu_busy_share": _("the GPU is busy"),
            "gpu_idle_share": _("the GPU is idle"),
            "idle_data_loading_share": _("idle: waits for data"),
            "idle_synchronization_share": _("idle: after a synchronisation"),
            "idle_host_operations_share": _("idle: the host is in operations"),
            "idle_host_other_share": _("idle: the host is in Python, or not traced"),
            "idle_launching_share": _("idle: launching"),
            "idle_queued_share": _("idle: launched, waits for something else"),
            "dataloader_share": _("data loading, of the steps"),
        },
    ),
    (
        _("Kernels"),
        {
            "kernels": _("kernels"),
            "kernel_ms": _("their summed time"),
            "kernels_under_10us_share": _("shorter than 10 µs"),
            "kernel_kind_share": _("time by kind"),
            "gemm_share": _("matrix products"),
            "tensor_core_share": _("on tensor cores"),
            "fp32_simt_share": _("float32 without tensor cores"),
            "embedding_share": _("embedding lookups"),
            "layout_share": _("layout conversions"),
        },
    ),
    (
        _("Communication"),
        {
            "comm_span_share": _("exposed, of the whole time"),
            "comm_exposed_share": _("exposed, of all communication"),
            "comm_kernel_share": _("of the kernels' time"),
        },
    ),
    (
        _("Memory copies"),
        {
            "memcpy": _("copies"),
            "memcpy_bytes": _("bytes copied"),
            "memcpy_by_kind": _("by direction"),
            "memcpy_pageable": _("from pageable memory"),
            "memcpy_to_pageable": _("to pageable memory"),
            "memcpy_pageable_bytes": _("bytes from and to pageable memory"),
            "memset": _("sets"),
        },
    ),
    (
        _("Host"),
        {
            "synchronizations_per_step": _("waits for the GPU, a step"),
            "synchronization_ms_per_step": _("time of these, a step"),
            "launch_delay_us": _("from launch to kernel"),
            "optimizer_fused": _("the optimizer is fused"),
            "optimizer_inplace_ops_per_step": _("in-place operations that an optimizer calls, a step"),
            "recompiles": _("recompiles"),
            "ops_per_step": _("calls a step"),
        },
    ),
)
REST = _("More")


@dataclass(frozen=True)
class Fact:
    """`name`: as the document has it."""

    name: str
    label: Any
    text: str


@dataclass(frozen=True)
class Group:
    title: Any
    facts: list[Fact]


def groups(facts: Mapping[str, Any]) -> list[Group]:
    """Those with something to tell."""
    known = {name for _title, labels in GROUPS for name in labels}
    rest = {name: name.replace("_", " ") for name in facts if name not in known}
    found = [Group(title, list(_told(facts, labels))) for title, labels in (*GROUPS, (REST, rest))]
    return [group for group in found if group.facts]


def _told(facts: Mapping[str, Any], labels: Mapping[str, Any]) -> Iterator[Fact]:
    for name, label in labels.items():
        text = figure(name, facts.get(name))
        if text:
            yield Fact(name, label, text)
