"""Compiles each kernel's Triton code for an sm_90 that is not there; prints JSON. Not in the interpreter's process."""

from __future__ import annotations

import importlib
import inspect
import json
import re

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernels
from kernels import rows
from kernels.spec import jit

TARGET = GPUTarget("cuda", 90, 32)


def main() -> None:
    kernels.load()
    found = []
    for kernel in kernels.KERNELS:
        function = jit(importlib.import_module(type(kernel).__module__)._kernel)
        names = list(inspect.signature(function.fn).parameters)
        for width in (256, 9001):
            tile = rows.tile(width)
            constants = {"HAS_WEIGHT": True, "HAS_BIAS": True, "ROWS": tile.rows, "COLUMNS": tile.columns}
            constants = {k: v for k, v in {**constants, "WHOLE": tile.whole}.items() if k in names}
            pointers = {n: "*bf16" for n in names if n.endswith("_ptr")}
            signature = {**pointers, "n_rows": "i32", "width": "i32", "eps": "fp32"}
            source = ASTSource(
                fn=function,
                signature={n: signature.get(n, "constexpr") for n in names},
                constexprs={(names.index(k),): v for k, v in constants.items()},
            )
            built = triton.compile(source, target=TARGET, options={"num_warps": tile.warps})
            ptx = built.asm["ptx"]
            found.append(
                {
                    "kernel": kernel.name,
                    "width": width,
                    "cubin_bytes": len(built.asm["cubin"]),
                    "stores": "st.global" if "st.global" in ptx else "",
                    "float64_instructions": len(re.findall(r"\.f64\b", ptx)),
                }
            )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
