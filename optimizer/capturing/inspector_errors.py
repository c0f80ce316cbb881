"""Refusals of the inspector: what an upload is instead of a model that can be read, and the line that exports it."""

from __future__ import annotations

from optimizer.errors import catalogue
from optimizer.uploads import refusals
from optimizer.uploads.refusals import EXPORT

catalogue(
    {
        "inspecting:user:missing": ("There is no file at {path}.", "Give the path of a .pt2, .py, .zip or .onnx file."),
        "inspecting:user:unreadable": (
            "The file cannot be read: {text}",
            "Make it readable for the user that runs Fuseworks (`chmod u+r FILE`).",
        ),
        "inspecting:user:empty": (*refusals.EMPTY,),
        "inspecting:user:too-large": (
            "The file has {size_mib} MiB; {limit_mib} MiB is the limit for {what}.",
            "Keep the weights in bfloat16, or upload a smaller variant of the same structure.",
        ),
        "inspecting:user:foreign": (*refusals.FOREIGN,),
        "inspecting:user:unknown": (*refusals.UNKNOWN,),
        "inspecting:user:wrong-suffix": (*refusals.WRONG_SUFFIX,),
        "inspecting:user:bad-source": (
            "The Python file cannot be read: {text}",
            "Save it as UTF-8 text; weights belong into `weights.safetensors` beside `model.py` in a .zip.",
        ),
        "inspecting:user:bad-zip": (*refusals.BAD_ZIP,),
        "inspecting:user:bad-zip-content": (*refusals.BAD_ZIP_CONTENT,),
        "inspecting:user:bad-pt2": (
            "The .pt2 archive is not acceptable: {text}",
            f"Save it anew with torch 2.11 or later: `{EXPORT}`",
        ),
        "inspecting:user:operator": (
            "The graph calls {operator!r}, which is not an operator that Fuseworks reads.",
            "Only PyTorch's own operators (aten, prims, higher_order) travel in a .pt2: express custom operators by "
            f"them before `{EXPORT}`",
        ),
        "inspecting:user:bad-safetensors": (
            "{file} is not an acceptable safetensors file: {text}",
            'Write it with `safetensors.torch.save_file(model.state_dict(), "weights.safetensors")`.',
        ),
        "inspecting:user:bad-onnx": (
            "The ONNX file is not acceptable: {text}",
            'Export it anew and check it: `torch.onnx.export(model, example_inputs, "model.onnx", dynamo=True)`, '
            '`onnx.checker.check_model("model.onnx")`.',
        ),
        "inspecting:user:external-data": (
            "The ONNX model keeps weights in the file {location!r}, which {text}.",
            "Put both into one archive: `zip model.zip model.onnx {location}`; or save one file: "
            '`onnx.save(onnx.load("model.onnx"), "whole.onnx")`.',
        ),
    }
)
