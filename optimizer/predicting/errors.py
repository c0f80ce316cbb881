"""Errors of predicting for a device that is not there."""

from __future__ import annotations

from optimizer.errors import catalogue

catalogue(
    {
        "predicting:user:unknown-target": (
            "Nothing can be predicted for the target {target}: {text}.",
            "Choose one of {known}.",
        ),
        "predicting:user:wrong-format": (
            "An ONNX graph is not lowered for a GPU: Inductor reads PyTorch's graphs only.",
            "Upload the model as a module (.py or .zip) or as .pt2 of torch.export.",
        ),
        "predicting:user:data-dependent": (
            "A size of the graph depends on the values of its inputs: {text}",
            "Nothing can be predicted for such a model without running it; give the values' sizes as fixed shapes.",
        ),
        "predicting:user:not-lowered": (
            "Inductor does not lower the graph for {target}: {text}",
            "The log has Inductor's own words. A run on a machine that has the device tries the other engines, too.",
        ),
        "predicting:ours:unavailable": (
            "Nothing can be compiled for {target} on this machine: {text}.",
            "{remedy}",
        ),
    }
)
