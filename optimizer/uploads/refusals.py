"""Why an upload is refused, and the texts and remedies that both catalogues of errors give these reasons."""

from __future__ import annotations

from typing import Any, Literal

EXPORT = 'torch.export.save(torch.export.export(model.eval(), example_inputs), "model.pt2")'
MODULE = "or write a model.py with `class Model(torch.nn.Module)` and `get_inputs()` (see examples/)"

RECORD = (
    "Record it anew: `with torch.profiler.profile(record_shapes=True) as prof: ...` over a few steps, "
    '`prof.step()` after each, then `prof.export_chrome_trace("trace.json.gz")`.'
)

Reason = Literal["foreign", "unknown", "wrong-suffix", "bad-zip"]

# (message, remedy)
EMPTY = ("The file is empty.", "Export the model again and upload the whole file.")
FOREIGN = ("This is {what}, which Fuseworks does not read.", "{remedy}")
UNKNOWN = (
    "The file is none of .pt2, .py, .zip with a model.py, .onnx: {text}",
    f"From PyTorch: `{EXPORT}`, {MODULE}. Anything else: export it to ONNX.",
)
WRONG_SUFFIX = (
    "The file is named {suffix} but holds {what}.",
    "Give it the suffix of what it is: .pt2, .py, .zip or .onnx.",
)
BAD_ZIP = (
    "The zip archive is not acceptable: {text}",
    "Zip the folder anew with plain files only: `zip -r model.zip model.py weights.safetensors`.",
)
BAD_ZIP_CONTENT = (
    "The zip holds no model that can be read: {text}",
    "It holds `model.py` (and, if wanted, `weights.safetensors`, `workload.yaml`, `samples.safetensors` and "
    "further .py modules), or one `model.onnx` with its external data.",
)
# of profiler traces: there is one way to make one, whatever the file is
EMPTY_TRACE = ("The file is empty.", RECORD)
NO_TRACE = ("{name} is no trace of torch.profiler: {what}.", RECORD)
TRACE_ZIP = (
    "The archive of traces is not acceptable: {text}",
    "Zip the traces of one job by themselves: `zip traces.zip rank*.json`.",
)


class Refused(Exception):
    """`context` fills the reason's text and remedy."""

    def __init__(self, reason: Reason, **context: str) -> None:
        super().__init__(f"{reason}: {context}")
        self.reason: Reason = reason
        self.context: dict[str, Any] = dict(context)
