"""A training step as it was measured. `python train_step.py --self-test` tries it. In a training script:

    from train_step import load, parameters

    step = load()
    loss = step(*batch)               # tensors in the order of manifest.json: the model's inputs, then the targets
    model.load_state_dict(parameters(step), strict=False)

Start the script in the settings that the step was measured in: see README.md. Parameters begin as they were uploaded,
or as `load(weights)` says. Exit codes: 0 as measured, 1 the losses differ, 3 another torch.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODEL = "model."
DIFFERENT, OTHER_TOOLCHAIN = 1, 3


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    return found


def load(weights: dict[str, Any] | None = None, *, compiled: bool | None = None) -> Any:
    """`weights`: a state_dict of the model. `compiled`: null as it was measured; False runs it eagerly."""
    import torch
    from runtime import Step, design_of, load_graph  # type: ignore[import-not-found]  # beside it in a package

    told = manifest()
    path = HERE / told["step"]
    step = Step(
        load_graph(path),
        design_of(path),
        compiled=told["compiled"] if compiled is None else compiled,
        compiled_optimizer=told["compiled_optimizer"] and compiled is not False,
    )
    with torch.no_grad():
        for name, value in (weights or {}).items():
            step.parameters[MODEL + name].copy_(value)
    return step


def parameters(step: Any) -> dict[str, Any]:
    """Under the names that they have in the model."""
    return {name.removeprefix(MODEL): tensor.detach() for name, tensor in step.parameters.items()}


def self_test(compiled: bool | None) -> int:
    import numpy as np
    import torch

    told = manifest()
    wanted, here = told["toolchain"]["torch"], torch.__version__.partition("+")[0]
    if wanted != here:
        print(f"measured with torch {wanted}, and {here} is installed", file=sys.stderr)
        return OTHER_TOOLCHAIN
    torch.set_num_threads(told["settings"]["threads"])
    step = load(compiled=compiled)
    dtypes = [getattr(torch, spec["dtype"]) for spec in told["inputs"]]
    with np.load(HERE / told["check"]["file"], allow_pickle=False) as saved:
        wanted_losses = saved["losses"]
        for number, loss in enumerate(wanted_losses):
            arrays = [saved[f"batch_{number}_{at}"] for at in range(len(dtypes))]
            got = float(step(*[torch.tensor(a, dtype=d) for a, d in zip(arrays, dtypes, strict=True)]))
            error = abs(got - loss) / (abs(loss) or 1.0)
            if not error <= told["check"]["allowed_error"]:
                print(f"step {number + 1}: loss {got:.7g} where {loss:.7g} was measured", file=sys.stderr)
                return DIFFERENT
    print(f"{len(wanted_losses)} steps as measured, the last with loss {wanted_losses[-1]:.6g}")
    return 0


def in_settings() -> None:
    """The C library reads its settings once, when a process starts: starts this one anew in those of the manifest."""
    environment = manifest()["settings"]["environment"]
    if any(os.environ.get(name) != value for name, value in environment.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **environment})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A training step made faster by Fuseworks")
    parser.add_argument("--self-test", action="store_true", required=True, help="train on the saved batches")
    parser.add_argument("--eager", action="store_true", help="without compiling")
    chosen = parser.parse_args()
    in_settings()
    sys.exit(self_test(False if chosen.eager else None))
