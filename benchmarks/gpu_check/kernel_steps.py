"""The steps about one kernel: is it right, and how fast is each of its configurations. In a child, on a GPU.

Under the interpreter the same code runs on small arguments, to hold it together; its times say nothing of any device.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

import torch

from benchmarks.gpu_check.clock import Clock
from benchmarks.gpu_check.times import summary_us
from kernels.aot.devices import Device
from kernels.aot.roofline import bound
from kernels.checking import Case, cases, check, check_operation, plain
from kernels.filling import NoRule, bytes_of, filled
from kernels.spec import Configuration, Kernel, Sample

MOST_OF_MEMORY = 0.5  # of what is free, by the arguments of one call
LIMIT_S = 0.15  # of timing one configuration
_MATRIX_INSTRUCTION = re.compile(r"\b(?:mma\.sync|wgmma\.|tcgen05\.mma|v_mfma_|v_smfmac_|v_wmma_)")
DTYPES = (torch.bfloat16, torch.float32, torch.float16)  # in this order; integers after them


def is_refusal(error: Exception) -> bool:
    """A configuration that this device cannot run: the compiler or the launcher says so. Anything else is a fault."""
    return type(error).__name__ in ("OutOfResources", "CompilationError") or "PassManager::run failed" in str(error)


# ---- right? -------------------------------------------------------------------------------------------------------


def first_cases(kernel: Kernel) -> list[Case]:
    """Each dtype and configuration on the first sample."""
    firsts = {(dtype, kernel.samples(dtype)[0].name) for dtype in kernel.tolerances}
    return [case for case in cases(kernel) if (case.dtype, case.sample.name) in firsts and not case.edge]


def further_cases(kernel: Kernel) -> list[Case]:
    """All others: the edges before the other samples."""
    done = {case.name for case in first_cases(kernel)}
    return sorted((case for case in cases(kernel) if case.name not in done), key=lambda case: not case.edge)


def right(kernel: Kernel, chosen: Iterable[Case], device: str, until: float, *, operation: bool) -> dict[str, Any]:
    """`until`: of `time.monotonic`; what is not reached by then is named. `operation`: called through torch as well.

    A configuration may be refused by a device; a dtype of which all are refused does not run there: a fault.
    """
    wrong, refused, left_out, worst, right_ones = [], [], [], 0.0, 0
    tried: dict[torch.dtype, bool] = {}
    for case in chosen:
        if time.monotonic() > until:
            left_out.append(case.name)
            continue
        try:
            outcome = check(case, device)
        except Exception as error:  # Triton's compiler and launcher raise many kinds
            if not is_refusal(error):
                raise
            refused.append({"case": case.name, "error": text_of(error)})
            tried.setdefault(case.dtype, False)
            continue
        tried[case.dtype] = True
        worst = max(worst, outcome.error_share)
        if outcome.fault is None:
            right_ones += 1
        else:
            wrong.append({"case": case.name, "fault": outcome.fault})
    for dtype in [dtype for dtype, ran in tried.items() if not ran]:
        wrong.append({"case": plain(dtype), "fault": "the device refuses every configuration that was tried"})
    if operation:
        for dtype in [dtype for dtype, ran in tried.items() if ran]:
            sample = kernel.samples(dtype)[0]
            name = f"{plain(dtype)} {sample.name} (called as torch.ops.fuseworks.{kernel.name})"
            fault = check_operation(kernel, sample, dtype, device)
            right_ones += fault is None
            wrong += [] if fault is None else [{"case": name, "fault": fault}]
    status = "wrong" if wrong else "cut" if left_out else "passed"
    return {
        "status": status,
        "cases": right_ones + len(wrong) + len(refused) + len(left_out),
        "right": right_ones,
        "wrong": wrong,
        "refused": refused,
        "left_out": left_out,
        "worst_error_share": worst if worst != float("inf") else None,
    }


# ---- how fast? ----------------------------------------------------------------------------------------------------


def tune(kernel: Kernel, device: str, roof: Device | None, clock: Clock, until: float) -> dict[str, Any]:
    """Each configuration at the typical size of each dtype; the best, and its share of the roofline."""
    dtypes = [d for d in DTYPES if d in kernel.tolerances] + [d for d in kernel.tolerances if d not in DTYPES]
    found: dict[str, Any] = {}
    left_out: list[str] = []
    for dtype in dtypes:
        if time.monotonic() > until:
            left_out.append(plain(dtype))
            continue
        try:
            sample = _sample(kernel, dtype, device)
        except (NoRule, MemoryError) as error:
            return {"status": "left_out", "reason": str(error), "dtypes": found}
        found[plain(dtype)] = _of_dtype(kernel, dtype, sample, roof, clock)
        del sample
        if device != "cpu":
            torch.cuda.empty_cache()
    return {"status": "cut" if left_out else "passed", "dtypes": found, "left_out": left_out}


def _sample(kernel: Kernel, dtype: torch.dtype, device: str) -> Sample:
    """Raises NoRule; MemoryError where the device has not enough."""
    if device == "cpu":
        return kernel.samples(dtype)[0]
    typical = kernel.typical(dtype)
    free, _ = torch.cuda.mem_get_info()
    if bytes_of(typical) > MOST_OF_MEMORY * free:
        raise MemoryError(
            f"{bytes_of(typical) / 2**30:.1f} GiB of arguments, {free / 2**30:.1f} GiB of memory are free"
        )
    return filled(kernel, typical, device)


def _of_dtype(kernel: Kernel, dtype: torch.dtype, sample: Sample, roof: Device | None, clock: Clock) -> dict[str, Any]:
    cost = kernel.cost(*sample.args)
    timed = [_configuration(kernel, sample, one, clock) for one in kernel.configurations(*sample.args)]
    ran = [one for one in timed if "median_us" in one]
    told: dict[str, Any] = {
        "sample": sample.name, "bytes": cost.bytes, "flops": cost.flops, "configurations": timed,
        "untuned": timed[0]["name"], "reference": _reference(kernel, sample, clock),
    }  # fmt: skip
    if not ran:
        return told
    best = min(ran, key=lambda one: float(one["median_us"]))
    told["best"] = best["name"]
    told["gigabytes_per_s"] = cost.bytes / best["median_us"] / 1e3
    told["teraflops_per_s"] = cost.flops / best["median_us"] / 1e6
    if roof is not None:
        least = bound(
            roof, bytes=cost.bytes, flops=cost.flops, dtype=plain(dtype), tensor_cores=bool(best["tensor_cores"])
        )
        told |= {"bound_us": least.us, "bound_by": least.by, "roofline_share": least.us / best["median_us"]}
    return told


def _configuration(kernel: Kernel, sample: Sample, configuration: Configuration, clock: Clock) -> dict[str, Any]:
    """Launches are made once: what is timed is the device's work. Each call fills the same outputs anew."""
    launches = kernel.launches(kernel.fake(*sample.args), configuration, *sample.args)
    began = time.perf_counter()
    try:
        compiled = [launch.run() for launch in launches]
        clock.wait()
    except Exception as error:  # Triton's compiler and launcher raise many kinds
        if not is_refusal(error):
            raise
        return {"name": configuration.name, "refused": text_of(error)}
    first_s = time.perf_counter() - began

    def call() -> None:
        for launch in launches:
            launch.run()

    times = summary_us(clock.times_us(call, limit_s=LIMIT_S))
    return {"name": configuration.name, "first_call_s": round(first_s, 3), **times, **_resources(compiled)}


def _resources(compiled: list[Any]) -> dict[str, Any]:
    """As the driver loaded them, of each launch; nothing under the interpreter."""
    code = [str(one.asm.get("ptx") or one.asm.get("amdgcn") or "") for one in compiled if one is not None]
    return {
        "tensor_cores": any(_MATRIX_INSTRUCTION.search(text) for text in code),
        "launches": [
            {
                "registers": getattr(one, "n_regs", None),
                "local_bytes": 4 * int(getattr(one, "n_spills", 0) or 0),
                "shared_bytes": int(one.metadata.shared),
            }
            for one in compiled
            if one is not None
        ],
    }


def _reference(kernel: Kernel, sample: Sample, clock: Clock) -> dict[str, Any]:
    """The formula in plain torch, as eager runs it on the same arguments."""
    try:
        with torch.no_grad():
            return summary_us(clock.times_us(lambda: kernel.reference(*sample.args), limit_s=LIMIT_S))
    except torch.OutOfMemoryError as error:
        return {"refused": text_of(error)}


def text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
