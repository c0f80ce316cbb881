"""Refusals of the inspector: what an upload is instead of a model that can be read, and the line that exports it."""

from __future__ import annotations

from optimizer.errors import catalogue

TORCH_EXPORT = 'torch.export.save(torch.export.export(model.eval(), example_inputs), "model.pt2")'
MODULE = "or write a model.py with `class Model(torch.nn.Module)` and `get_inputs()` (see examples/)"

catalogue(
    {
        "inspecting:user:missing": ("There is no file at {path}.", "Give the path of a .pt2, .py, .zip or .onnx file."),
        "inspecting:user:unreadable": (
            "The file cannot be read: {text}",
            "Make it readable for the user that runs Fuseworks (`chmod u+r FILE`).",
        ),
        "inspecting:user:empty": ("The file is empty.", "Export the model again and upload the whole file."),
        "inspecting:user:too-large": (
            "The file has {size_mib} MiB; {limit_mib} MiB is the limit for {what}.",
            "Keep the weights in bfloat16, or upload a smaller variant of the same structure.",
        ),
        "inspecting:user:foreign": ("This is {what}, which Fuseworks does not read.", "{remedy}"),
        "inspecting:user:unknown": (
            "The file is none of .pt2, .py, .zip with a model.py, .onnx: {text}",
            f"From PyTorch: `{TORCH_EXPORT}`, {MODULE}. Anything else: export it to ONNX.",
        ),
        "inspecting:user:wrong-suffix": (
            "The file is named {suffix} but holds {what}.",
            "Give it the suffix of what it is: .pt2, .py, .zip or .onnx.",
        ),
        "inspecting:user:bad-source": (
            "The Python file cannot be read: {text}",
            "Save it as UTF-8 text; weights belong into `weights.safetensors` beside `model.py` in a .zip.",
        ),
        "inspecting:user:bad-zip": (
            "The zip archive is not acceptable: {text}",
            "Zip the folder anew with plain files only: `zip -r model.zip model.py weights.safetensors`.",
        ),
        "inspecting:user:bad-zip-content": (
            "The zip holds no model that can be read: {text}",
            "It holds `model.py` (and, if wanted, `weights.safetensors`, `workload.yaml`, `samples.safetensors` and "
            "further .py modules), or one `model.onnx` with its external data.",
        ),
        "inspecting:user:bad-pt2": (
            "The .pt2 archive is not acceptable: {text}",
            f"Save it anew with torch 2.11 or later: `{TORCH_EXPORT}`",
        ),
        "inspecting:user:operator": (
            "The graph calls {operator!r}, which is not an operator that Fuseworks reads.",
            "Only PyTorch's own operators (aten, prims, higher_order) travel in a .pt2: express custom operators by "
            f"them before `{TORCH_EXPORT}`",
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
