"""A digest of what was captured: the graph, its contract and every weight. Equal digests of one upload mean one model.

Of the program and not of its file: that holds places of the process that wrote it. Said by a child with the upload in
it, so that it tells captures of one upload apart and says nothing across uploads.
"""

from __future__ import annotations

import hashlib

import torch
from torch.export import ExportedProgram


def content_digest(program: ExportedProgram) -> str | None:
    """None where it holds what has no plain bytes, such as a sparse tensor."""
    digest = hashlib.sha256()
    for part in (program.graph, program.graph_signature, program.range_constraints):
        digest.update(str(part).encode())
    for name, value in sorted({**program.state_dict, **program.constants}.items()):
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return None
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} {value.stride()}".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
