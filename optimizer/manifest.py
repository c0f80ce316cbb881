"""`python -m optimizer.manifest [TARGET]`: what can be done here, as JSON, for pages that show it without torch.

Passes, kernels, backends and diagnosis rules with the JSON schemas of their options, why a backend cannot be used
here, the targets that can be predicted without a device, the machine and its devices. Imports torch: the coordinator
asks it in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import torch

from kernels import KERNELS
from kernels.describing import described
from kernels.describing import devices as compiled_for
from optimizer import machine
from optimizer.compiling.base import BACKENDS
from optimizer.coordinator.explain import KNOWN
from optimizer.diagnosing.base import RULES
from optimizer.optimizing.base import standard_order
from optimizer.optimizing.onnx_passes.base import standard_order as onnx_standard_order
from optimizer.optimizing.step_passes.base import standard_order as step_standard_order

FORMAT = 1


def manifest(target: str) -> dict[str, Any]:
    """Passes are in the order in which they are applied, all else by name."""
    return {
        "format": FORMAT,
        "target": target,
        "libraries": machine.library_versions(),
        "passes": [one.manifest() for one in standard_order()],
        "onnx_passes": [one.manifest() for one in onnx_standard_order()],
        "step_passes": [one.manifest() for one in step_standard_order()],
        "kernels": [described(kernel) for kernel in KERNELS],
        "kernels_compiled_for": compiled_for(),
        "predicts": list(KNOWN),
        "backends": [{**backend.manifest(), "unavailable": backend.unavailable(target)} for backend in BACKENDS],
        "rules": [{"name": rule.name, "summary": _summary(rule)} for rule in RULES],
        "machine": machine.fixed_conditions(target=target, threads=machine.physical_cores()),
        "devices": devices(),
    }


def _summary(rule: object) -> str:
    text = sys.modules[type(rule).__module__].__doc__ or ""
    return " ".join(text.partition("\n\n")[0].split())


def devices() -> list[dict[str, Any]]:
    """The processor, then each GPU that torch sees. Sizes in bytes."""
    found: list[dict[str, Any]] = [
        {
            "target": "cpu",
            "name": machine.cpu_model(),
            "cores": machine.physical_cores(),
            "memory_bytes": machine.memory_bytes(),
        }
    ]
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        rocm = torch.version.hip is not None
        target = f"rocm:{facts.gcnArchName.partition(':')[0]}" if rocm else f"cuda:sm_{facts.major}{facts.minor}"
        found.append(
            {
                "target": target,
                "name": facts.name,
                "processors": facts.multi_processor_count,
                "memory_bytes": facts.total_memory,
            }
        )
    return found


def main(arguments: list[str]) -> int:
    """Nothing but the JSON on standard output: whatever an engine prints while it is imported goes to the log."""
    with contextlib.redirect_stdout(sys.stderr):
        document = manifest(arguments[0] if arguments else "cpu")
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
