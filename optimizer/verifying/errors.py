"""What can go wrong while answers are judged, apart from a candidate's answers being wrong."""

from __future__ import annotations

from optimizer.errors import catalogue

catalogue(
    {
        "verifying:user:no-reference": (
            "No float64 reference could be made of this model: {text}",
            "Write the named operation so that its result does not depend on how float32 is stored, or leave it out.",
        ),
        "verifying:user:original-fails": (
            "The original itself gives no answer on the workload's own inputs: {text}",
            "Correct the workload's value ranges and sizes so that the model can be called with them.",
        ),
        "verifying:user:cannot-judge": (
            "On this workload a right answer cannot be told from a wrong one: {text}",
            "Give the workload value distributions (or sizes) under which the model's outputs differ between samples.",
        ),
    }
)
