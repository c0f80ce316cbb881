"""Errors of the capturing stage: what can be wrong with an upload, each with the way to mend it."""

from __future__ import annotations

from optimizer.errors import catalogue

_CONVENTION = (
    "A module needs a class `Model(torch.nn.Module)` and a function `get_inputs()`; `get_init_inputs()`, "
    "`get_workloads()` are optional. `examples/` has six of them."
)

catalogue(
    {
        # ---- the module of a .py or .zip --------------------------------------------------------------------------
        "capturing:user:syntax-error": (
            "The module is not valid Python: {text}",
            "Correct the named line; `python -m py_compile` on the file shows the same error.",
        ),
        "capturing:user:missing-package": (
            "The module imports {module!r}, which is not there.",
            "Only torch, numpy, transformers and what they bring are installed; put modules of your own beside "
            "`model.py` in a .zip.",
        ),
        "capturing:user:import-failed": (
            "Importing the module raised {type}: {text}",
            "The module is imported without network, home folder or environment; it must only define things.",
        ),
        "capturing:user:missing-name": ("The module defines no {name!r}.", _CONVENTION),
        "capturing:user:not-a-module": ("`Model` is {what}, not a subclass of torch.nn.Module.", _CONVENTION),
        "capturing:user:init-failed": (
            "Building `Model` raised {type}: {text}",
            "`Model(*get_init_inputs())` must work; `get_init_inputs()` returns the positional arguments as a list, or "
            "`[[...], {{...}}]` with keyword arguments, or a dict.",
        ),
        "capturing:user:inputs-failed": (
            "{function}() raised {type}: {text}",
            "The function is called without arguments on a machine without a GPU: make the tensors on the CPU.",
        ),
        "capturing:user:bad-inputs": (
            "{function}() returned {what}.",
            "Return a list of tensors in the order of `forward`'s parameters.",
        ),
        "capturing:user:scalar-input": (
            "Input {name!r} is a Python {type}, and a graph takes tensors only.",
            "Make it a constant of the model (an argument of `__init__`), or pass it as a tensor. Beside tensors, "
            "plain numbers are taken as constants, each at the same place in every call of `get_inputs()`.",
        ),
        "capturing:user:nested-input": (
            "Input {name!r} is a {type}, and inputs are plain tensors.",
            "Give `forward` one parameter per tensor and let `get_inputs()` return them as one flat list.",
        ),
        "capturing:user:forward-failed": (
            "Calling the model with its own sample inputs raised {type}: {text}",
            "`Model(*get_init_inputs())(*get_inputs())` must work in eval mode under no_grad: run it by itself.",
        ),
        "capturing:user:weights-unreadable": (
            "The weights file cannot be read: {text}",
            "Save it with `safetensors.torch.save_file(model.state_dict(), ...)`.",
        ),
        "capturing:user:weights-mismatch": (
            "The weights do not fit the module. Missing: {missing}. Unexpected: {unexpected}. Other shape: {shapes}.",
            "Save the state_dict of this very `Model`, under its own parameter names.",
        ),
        "capturing:user:bad-zip": (
            "The zip cannot be used: {text}",
            "It holds `model.py` at its top (or in its one folder), optionally `weights.safetensors`, `workload.yaml`, "
            "`samples.safetensors` and modules of your own.",
        ),
        # ---- the workload -----------------------------------------------------------------------------------------
        "capturing:user:bad-workload": (
            "The workload is not valid: {text}",
            "Its fields are `name`, `inputs` (name, dtype, shape, values), `dims` (serve, min, max) and the "
            "optional ones of the workload's schema.",
        ),
        "capturing:user:no-samples": (
            "The workload names the captured samples {name!r}, and the upload holds no such file.",
            "Put the file beside the model into a .zip, or leave `samples` out of the workload.",
        ),
        "capturing:user:bad-samples": (
            "The captured samples do not fit the workload: {text}",
            "Save one tensor per input, under the input's name and in its dtype, all with equally many samples: "
            '`safetensors.torch.save_file(inputs, "samples.safetensors")`.',
        ),
        "capturing:user:workload-mismatch": (
            "The workload does not fit the model: {text}",
            "List the inputs in the order of the model's parameters with the dtypes and shapes that it takes.",
        ),
        "capturing:user:training-workload": (
            "The workload asks for training steps, and {format} holds no loss and no gradients to train with.",
            "Upload the module itself: a .py (or a .zip with model.py) that defines `Model` and the loss function; or "
            "set the workload's `mode` to `inference`.",
        ),
        "capturing:user:training-incomplete": (
            "The workload asks for training steps and says no {missing}.",
            "Give `loss` (the name of a function in the module) and `optimizer` ({{name: sgd, lr: 0.01}}; or adam, "
            "adamw, adagrad) beside `mode: training`.",
        ),
        "capturing:user:loss-signature": (
            "The loss {name!r} {what}.",
            "It takes the model's output and then the targets, one tensor each; `get_targets()` returns their samples "
            "in that order.",
        ),
        "capturing:user:loss-failed": (
            "Computing loss and gradients with the model's own samples raised {type}: {text}",
            "`loss(Model(...)(*get_inputs()), *get_targets()).backward()` must work in train mode: run it by itself.",
        ),
        "capturing:user:bad-loss": (
            "The loss {name!r} is {what}, not one number to train with.",
            "Return a tensor of one float (a mean or a sum) that depends on the model's parameters.",
        ),
        "capturing:user:random-step": (
            "The training step draws random numbers: {operation}.",
            "Gradients of random masks cannot be compared. Write dropout as torch.nn.Dropout, which is switched off "
            "while a step is optimized, or take it out.",
        ),
        "capturing:user:drawn-inputs": (
            "The model fails on inputs drawn from its workload: {type}: {text}",
            "Describe the values that it takes in the workload (`below`, `from`, a distribution). Inputs that depend "
            "on one another, such as the offsets of bags, cannot be drawn: give bags a fixed length instead.",
        ),
        "capturing:user:dim-refused": (
            "The model cannot take {dims} as dynamic: {text}",
            "{advice}",
        ),
        # ---- what torch.export cannot take ------------------------------------------------------------------------
        "capturing:user:data-dependent-branch": (
            "A Python branch depends on the values of a tensor, so there is no single graph.",
            "Compute both sides and choose with `torch.where(condition, a, b)`, or use `torch.cond`; a check of the "
            "inputs belongs outside of `forward`.",
        ),
        "capturing:user:data-dependent-value": (
            "The values of a tensor become Python numbers (`.item()`, `.tolist()`, `int(...)`), so there is no single "
            "graph.",
            "Stay in tensors: index with tensors, mask with `torch.where` and pad to a fixed length; sizes belong into "
            "`__init__`.",
        ),
        "capturing:user:unsupported-operation": (
            "This operation cannot be captured: {text}",
            "Write it with torch operations; numpy, custom C++ extensions, autograd functions without a graph and "
            "printing of values have none.",
        ),
        "capturing:user:mutated-buffer": (
            "Each call changes the buffer {buffer!r}, so the answer depends on the calls before it.",
            "Take the state as an input and return the new state as an output (as with a key-value cache), or drop the "
            "update in eval mode.",
        ),
        "capturing:user:non-tensor-output": (
            "Output {name!r} is {what}, not a tensor.",
            "Return tensors only: a tensor, or a tuple, list or dict of tensors.",
        ),
        "capturing:user:no-output": (
            "The model returns no tensor.",
            "`forward` returns the tensors that serving uses.",
        ),
        "capturing:user:not-exportable": (
            "torch.export cannot capture the model: {text}",
            "The named line shows where it gave up; `torch.export.export(model, inputs)` reproduces it.",
        ),
        "capturing:user:export-differs": (
            "The captured graph answers differently from the model itself (output {name!r}, error {error} of its "
            "spread).",
            "The model keeps state in Python or computes with values while it is traced (a counter, a cache, numpy): "
            "let `forward` depend on its tensors only.",
        ),
        "capturing:user:not-repeatable": (
            "Two calls with the same inputs give different answers, although no operation draws random numbers.",
            "`forward` depends on Python state (random, time, a counter): make it depend on its inputs only.",
        ),
        # ---- .pt2 -------------------------------------------------------------------------------------------------
        "capturing:user:pt2-unreadable": (
            "The .pt2 cannot be loaded: {text}",
            "Save it with `torch.export.save(torch.export.export(model, inputs), path)` and torch {torch}.",
        ),
        "capturing:user:pt2-derived-dim": (
            "Dimension {index} of input {name!r} is {expression}: a workload has plain sizes only.",
            "Export with one `torch.export.Dim` per dynamic dimension, not with a multiple or sum of one.",
        ),
        # ---- .onnx ------------------------------------------------------------------------------------------------
        "capturing:user:onnx-invalid": (
            "The file is not a valid ONNX model: {text}",
            "`onnx.checker.check_model(path, full_check=True)` reproduces it; export the model again.",
        ),
        "capturing:user:onnx-version": (
            "The model uses {what} {version}; {low} to {high} are supported.",
            "Export it with an opset in this range (`torch.onnx.export(..., opset_version=18)`), or convert it with "
            "`onnx.version_converter`.",
        ),
        "capturing:user:onnx-custom-operations": (
            "The model uses operations that standard ONNX does not have: {names}.",
            "Export without custom or contrib operations (save the model before a runtime's own optimizer rewrote it).",
        ),
        "capturing:user:onnx-external-data": (
            "The weights are outside of the model's file: {text}.",
            "Save it as one file (`onnx.save(onnx.load(path), new_path)`), or put model and weights into one zip; "
            "more than 2 GB cannot be taken yet.",
        ),
        "capturing:user:onnx-input": (
            "Input {name!r} is {what}.",
            "Inputs are tensors of known rank and element type with fixed or named dimensions.",
        ),
        # ---- ours -------------------------------------------------------------------------------------------------
        "capturing:ours:format": ("Format {format!r} is not known to the capture.", "This is a fault of Fuseworks."),
        "capturing:ours:save": (
            "The captured graph could not be saved: {text}",
            "This is a fault of Fuseworks: please report it with the log of the run.",
        ),
    }
)
