"""Errors of the diagnosing stage: traces that are not read, each with the way to make a right one."""

from __future__ import annotations

from optimizer.errors import catalogue
from optimizer.uploads.refusals import RECORD, TRACE_ZIP

catalogue(
    {
        "diagnosing:user:foreign": ("This is {what}, not a trace of torch.profiler.", RECORD),
        "diagnosing:user:no-trace": ("The file holds no trace of torch.profiler.", RECORD),
        "diagnosing:user:not-json": ("The trace is not valid JSON: {text}", RECORD),
        "diagnosing:user:cut-off": (
            "The trace ends in the middle, after {events} events: {text}",
            f"The program was ended while it wrote, or the copy is not whole: copy it again. {RECORD}",
        ),
        "diagnosing:user:too-large": (
            "The trace has more than {limit_mib} MiB when it is unpacked.",
            "Record fewer steps (`schedule(wait=1, warmup=1, active=3)`), without `with_stack` and `profile_memory`.",
        ),
        "diagnosing:user:too-many-events": (
            "The trace has more than {limit} events.",
            "Record fewer steps (`schedule(wait=1, warmup=1, active=3)`).",
        ),
        "diagnosing:user:bad-archive": (*TRACE_ZIP,),
        "diagnosing:usage:two-kinds": (
            "{first} is a trace and {second} is none.",
            "Diagnose the ranks of one job together, and each model by itself.",
        ),
        "diagnosing:usage:many-models": (
            "{first} and {second} are two models.",
            "Diagnose each by itself; `fuseworks compare` measures two together.",
        ),
        "diagnosing:usage:trace": (
            "--trace writes the profile of a model, and {path} is a trace itself.",
            "Open it in ui.perfetto.dev as it is; give a model to have its profile written.",
        ),
        "diagnosing:usage:missing": ("There is no file at {path}.", "Give the path of a model or of a trace."),
        "diagnosing:usage:against": (
            "--against compares traces with traces, and {path} is none.",
            "Give a trace on both sides; two models are measured together by `fuseworks compare`.",
        ),
    }
)
