"""Turns an exported program into ONNX with the same dynamic dimensions, and collects an ONNX model's own files."""

from __future__ import annotations

import logging
import shutil
import warnings
from pathlib import Path

import onnx
import torch
from torch.export import ExportedProgram

from optimizer.compiling.torch_program import output_count
from optimizer.errors import FuseworksError

ENTRY = "model.onnx"
# Protobuf ends at 2 GiB; beyond this, weights go into a file beside the model.
INLINE_BYTES = 1_500_000_000


def export_onnx(exported: ExportedProgram, out: Path) -> Path:
    """Writes `model.onnx` (and `model.onnx.data` when it is large) into `out`. Raises what torch.onnx raises."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it speaks of its own versions and of axes' names
        program = torch.onnx.export(exported, dynamo=True, verbose=False, report=False)
    assert program is not None
    wanted, got = output_count(exported), len(program.model.graph.outputs)
    if wanted != got:
        raise FuseworksError("compiling:ours:outputs", engine="The ONNX export", got=got, wanted=wanted)
    path = out / ENTRY
    program.save(str(path), external_data=_weight_bytes(exported) > INLINE_BYTES)
    return path


def copy_onnx(model: Path, out: Path) -> Path:
    """The model and the files that hold its weights, side by side under the names that it knows them by."""
    document = onnx.load(str(model), load_external_data=False)
    for name in sorted(_external_files(document)):
        shutil.copyfile(model.parent / name, out / Path(name).name)
    path = out / ENTRY
    shutil.copyfile(model, path)
    return path


def _external_files(document: onnx.ModelProto) -> set[str]:
    names = set()
    for tensor in document.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                names.add(entry.value)
    for name in names:
        if Path(name).name != name:
            raise FuseworksError("compiling:ours:artifact", text=f"weights lie in {name!r}, not beside the model")
    return names


def _weight_bytes(exported: ExportedProgram) -> int:
    tensors = [*exported.state_dict.values(), *exported.constants.values()]
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))
