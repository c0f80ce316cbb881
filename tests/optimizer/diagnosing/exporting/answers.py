"""Diagnoses made by hand, as a model's and as a trace's come out."""

from __future__ import annotations

from typing import Any

from optimizer.diagnosing.diagnosis import Diagnosis
from optimizer.result import Conditions, Finding, PredictedGain, Problem

LOOKUPS = Finding(
    rule="many_embeddings",
    severity="medium",
    title="12 embedding lookups a call, at din.py:7",
    evidence={"lookups": 12, "table_bytes": 3 << 20, "sources": ["din.py:7", "din.py:9"], "module": "tables"},
    remedy="Merge them. Or batch them.",
    threshold="more than 8 embedding lookups a call (TorchRec's README)",
    steps=["Merge them.", "Or batch them."],
    cost_ms=1.5,
    cost_share=0.25,
    counted_share=0.125,
    gain=PredictedGain(low=1.05, high=1.2, model="one lookup in place of tens"),
)
BUSIEST = Finding(
    rule="dominant_operation", severity="info", title="linear takes 60% of the time", evidence={"op": "linear"}
)
WAITS = Finding(
    rule="host_synchronization",
    severity="high",
    title="The host waits for the GPU 16 times a step",
    evidence={"sources": {"train.py:54": 16}, "trace": "rank1.json", "waiting_ms_per_step": 3.25},
    remedy="Keep values on the GPU.",
)
BOTTOM = Finding(rule="low_gpu_use", severity="low", title="The GPU is idle")


def diagnosis(*findings: Finding, **changes: Any) -> Diagnosis:
    filled = {
        "of": ["din.py"],
        "summary": "2 findings",
        "facts": {"span_ms": 1231.5, "gpu_busy_share": 0.356, "kernels": 6080, "memory_bytes": 3 << 20, "world": None},
        "sandbox": "bubblewrap",
        "notes": ["batch is dynamic"],
        "conditions": Conditions(fixed={"cpu": "any", "libraries": {"torch": "2.13.0"}}, fingerprint="c0ffee"),
    }
    return Diagnosis(findings=list(findings), **{**filled, **changes})


FAILED = Problem(
    id="capturing:user:not-exportable",
    side="user",
    message="The graph breaks.",
    place="din.py:12",
    remedy="Take the print out.",
)
