"""Makes the toolchain cache in a trusted child: compiles two tiny models, once ahead of time and once at call.

What is kept holds nothing of a model: the proof that the compiler's vector code runs here, and precompiled headers.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

import optimizer.compiling.errors  # noqa: F401
from optimizer.children.session import Session
from optimizer.compiling.availability import no_python_headers
from optimizer.compiling.engine_errors import engine_errors
from optimizer.compiling.inductor_setup import set_up, toolchain_files


class _Tiny(torch.nn.Module):
    """A reduction, an elementwise chain and a GEMM: what the generated code of most models includes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(self.linear(x)) + 1, -1)


def seed(session: Session) -> dict[str, Any]:
    """Sends the files under flat names. Raises FuseworksError when the compiler itself fails."""
    started = time.perf_counter()
    cache = set_up(session.scratch)
    session.progress("Compiling with AOTInductor")
    with engine_errors("The C++ toolchain"), torch.no_grad():
        _ahead_of_time(session.scratch)
        if no_python_headers() is None:  # torch.compile needs them, AOTInductor does not
            session.progress("Compiling with torch.compile")
            torch.compile(_Tiny().eval(), fullgraph=True)(torch.ones(4, 8))
    files = toolchain_files(cache)
    for name, path in sorted(files.items()):
        session.send_file(name, path)
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    return {"seconds": time.perf_counter() - started, "isa": str(pick_vec_isa()), "files": len(files)}


def _ahead_of_time(scratch: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(_Tiny().eval(), (torch.ones(4, 8),), dynamic_shapes=({0: batch},))
    torch._inductor.aoti_compile_and_package(
        exported, package_path=str(scratch / "seed.pt2"), inductor_configs={"freezing": True}
    )
