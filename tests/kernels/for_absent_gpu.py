"""Compiles each kernel's Triton code for an sm_90 that is not there; prints a JSON line for each launch.

In bfloat16 where it takes that, with its default configuration. Not in the interpreter's process.
"""

from __future__ import annotations

import json
import re
import sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernels
from kernels.aot.compiler import source_of
from kernels.spec import jit

TARGET = GPUTarget("cuda", 90, 32)


def main(chosen: list[str]) -> None:
    """`chosen`: only these kernels; none: all."""
    kernels.load()
    for kernel in kernels.KERNELS:
        if chosen and kernel.name not in chosen:
            continue
        dtype = torch.bfloat16 if torch.bfloat16 in kernel.tolerances else next(iter(kernel.tolerances))
        args = kernel.typical(dtype).args
        for launch in kernel.launches(kernel.fake(*args), kernel.configurations(*args)[0], *args):
            function = jit(launch.function)
            source = source_of(function, launch.args, launch.constants, launch.num_warps, launch.num_stages)
            names = list(source.signature)
            constants = {(names.index(name),): value for name, value in source.constants.items()}
            given = ASTSource(fn=function, signature=dict(source.signature), constexprs=constants)
            options = {"num_warps": launch.num_warps, "num_stages": launch.num_stages}
            built = triton.compile(given, target=TARGET, options=options)
            ptx = built.asm["ptx"]
            line = {
                "kernel": kernel.name,
                "cubin_bytes": len(built.asm["cubin"]),
                "stores": "st.global" in ptx,
                "float64_instructions": len(re.findall(r"\.f64\b", ptx)),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
