"""Whether the GPU that a child was given is the target's: asked of torch in the child, and failing clearly.

The coordinator sees device nodes only. A wrong GPU, a torch without CUDA or a driver that does not start inside the
sandbox would else show as a strange error, or as a measurement of something else.
"""

from __future__ import annotations

import re

from optimizer.errors import FuseworksError

WITHOUT_CUDA = "this torch is built without CUDA: install a torch with CUDA (`make setup` takes the index's default)"


def refusal(target: str, *, built_with: str | None, available: bool, capability: tuple[int, int] | None) -> str | None:
    """Why this child cannot work for a CUDA target, with the remedy behind a colon; None when it can.

    `built_with`: torch.version.cuda; `capability`: of the first GPU that it sees.
    """
    if built_with is None:
        return WITHOUT_CUDA
    if not available or capability is None:
        return (
            "CUDA does not start in the sandbox: see the child's log, compare `nvidia-smi` on the host, and try "
            "--trusted with a model of your own"
        )
    here = f"sm_{capability[0]}{capability[1]}"
    wanted = re.sub(r"[a-z]$", "", target.partition(":")[2])  # sm_90a is an sm_90 with more instructions
    if here != wanted:
        return f"the GPU is {here} and the target {target}: choose the target cuda:{here}, or another GPU"
    return None


def check_gpu(engine: str, target: str) -> None:
    """Raises FuseworksError (`compiling:ours:unavailable`)."""
    import torch

    available = torch.cuda.is_available()
    reason = refusal(
        target,
        built_with=torch.version.cuda,
        available=available,
        capability=torch.cuda.get_device_capability() if available else None,
    )
    if reason is not None:
        text, _, remedy = reason.partition(": ")
        raise FuseworksError("compiling:ours:unavailable", engine=engine, text=text, remedy=remedy)
