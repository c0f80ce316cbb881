"""Documents of runs that only predicted, with figures to check by hand."""

from __future__ import annotations

from typing import Any

FORMULA: dict[str, Any] = {
    "lower": "the sum of max(bytes / bandwidth, flops / rate)",
    "upper": "the sum of gap + max(shortest, bound / share)",
    "assumptions": {"gap_us": 5.0, "extern_share": 0.75},
    "notes": ["Bytes count once."],
}


def kernel(name: str = "triton_relu", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "origin": "inductor",
        "source_nodes": [{"node": "relu", "operation": "aten.relu.default", "source": "model.py:7"}],
        "configuration": "XBLOCK=1024 warps=4 stages=1",
        "configurations": 2,
        "registers": 24,
        "spills": 3,
        "shared_bytes": 2048,
        "shared_limit_bytes": 232_448,
        "occupancy": 0.75,
        "blocks_per_sm": 12,
        "limited_by": "registers",
        "grid": [256, 1, 1],
        "warps": 4,
        "vector_loads": 4,
        "loads": {"128": 4, "32": 1},
        "tensor_core_instructions": 0,
        "instructions": 60,
        "mix": {"float": 60},
        "bytes_in_flight": 1000,
        "bytes_in_flight_wanted": 2000,
        "triton_source": "def triton_relu(): ...",
        "launches": 2,
        "bytes": 4096,
        "flops": 1024,
        "bound_us": 1.254,
        "bound_by": "memory",
        "upper_us": 14.0,
        **more,
    }


def lowering(low_ms: float, high_ms: float, launched: int, moved: int, *kernels: dict[str, Any]) -> dict[str, Any]:
    call = {
        "name": "aten.mm.out",
        "shapes": ["float32[512, 13]"],
        "dtype": "float32",
        "launches": 1,
        "bytes": 3072,
        "flops": 2_000_000,
        "bound_us": 4.012,
        "bound_by": "compute",
        "upper_us": 12.0,
    }
    return {
        "kernels": list(kernels),
        "extern_calls": [call],
        "kernels_launched": launched,
        "bytes_moved": moved,
        "predicted_ms": [low_ms, high_ms],
        "lowering_s": 1.0,
        "compiling_s": 1.0,
    }


def document(applied: tuple[str, ...] = ("fuse_operations",), purpose: str = "optimize") -> dict[str, Any]:
    before = lowering(0.25, 0.5, 41, 3 << 20, kernel("triton_old"))
    after = lowering(0.125, 0.375, 17, 2 << 20, kernel(), kernel("rms_norm", origin="fuseworks", bound_us=20.5))
    return {
        "purpose": purpose,
        "status": "succeeded",
        "predicted": {
            "target": "cuda:sm_90",
            "device": "NVIDIA H100 SXM 80 GB",
            "device_sources": ["NVIDIA's white paper"],
            "sizes": {"batch": 512},
            "before": before,
            "after": after if applied else before,
            "applied": list(applied),
            "difference": {
                "kernels_launched": -24 if applied else 0,
                "bytes_moved": -(1 << 20) if applied else 0,
                "predicted_ms": [-0.125, -0.125] if applied else [0, 0],
            },
            "formula": FORMULA,
        },
    }
