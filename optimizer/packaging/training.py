"""Writes what a team trains with: the step's graph and weights, what runs it, settings and a check; folder and zip.

The upload's code is never in it. What is compiled is compiled where it trains: no cache travels.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.spec import Step, Workload, dump_step

TEMPLATES = Path(__file__).resolve().parents[1] / "compiling" / "step"
STEP = "step.pt2"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Checked:
    """Steps from the beginning, in turn, and their losses; `allowed_error` is a share of a loss."""

    batches: Sequence[Sequence[np.ndarray]]
    losses: Sequence[float]
    allowed_error: float


def write_training_package(
    out: Path,
    *,
    name: str,
    step: Path,
    workload: Workload,
    steps: Sequence[Step],
    compiled: bool,
    compiled_optimizer: bool,
    torch: str,
    environment: Mapping[str, str],
    threads: int,
    model_sha256: str,
    recipe_digest: str | None,
    speedup: str,
    checked: Checked,
) -> tuple[Path, Path]:
    """`out/package/` and `out/package.zip`."""
    folder = out / "package"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copyfile(step, folder / STEP)
    shutil.copyfile(TEMPLATES / "runtime.py", folder / "runtime.py")
    shutil.copyfile(TEMPLATES / "train_step_template.py", folder / "train_step.py")
    _write_check(folder / "check.npz", checked)
    assert workload.optimizer is not None
    manifest: dict[str, Any] = {
        "kind": "fuseworks.training_package",
        "name": name,
        "model_sha256": model_sha256,
        "recipe_digest": recipe_digest,
        "step": STEP,
        "steps": [dump_step(one) for one in steps],
        "loss": workload.loss,
        "optimizer": workload.optimizer.model_dump(),
        "compiled": compiled,
        "compiled_optimizer": compiled_optimizer,
        "inputs": [{"name": i.name, "dtype": i.dtype, "shape": list(i.shape)} for i in workload.inputs],
        "toolchain": {"torch": torch.partition("+")[0]},
        "settings": {"environment": dict(environment), "threads": threads},
        "check": {"file": "check.npz", "allowed_error": checked.allowed_error},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    (folder / "requirements.txt").write_text(f"torch=={manifest['toolchain']['torch']}\nnumpy\n", encoding="utf-8")
    (folder / "README.md").write_text(_readme(manifest, speedup), encoding="utf-8")
    archive = out / "package.zip"
    _zip(folder, archive)
    return folder, archive


def _write_check(path: Path, checked: Checked) -> None:
    arrays = {"losses": np.asarray(checked.losses, dtype=np.float64)}
    for number, batch in enumerate(checked.batches):
        arrays |= {f"batch_{number}_{at}": array for at, array in enumerate(batch)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():  # by hand: np.savez writes the time of day into the archive
            with archive.open(zipfile.ZipInfo(f"{key}.npy", _EPOCH), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _zip(folder: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            with (
                path.open("rb") as source,
                archive.open(zipfile.ZipInfo(f"package/{path.name}", _EPOCH), "w", force_zip64=True) as sink,
            ):
                shutil.copyfileobj(source, sink, 1 << 20)


def _readme(manifest: Mapping[str, Any], speedup: str) -> str:
    inputs = "\n".join(f"| `{i['name']}` | {i['dtype']} | {i['shape']} |" for i in manifest["inputs"])
    settings = "\n".join(f"export {k}={v}" for k, v in manifest["settings"]["environment"].items())
    how = "compiled with torch.compile at the first step" if manifest["compiled"] else "run eagerly"
    optimizer = manifest["optimizer"]
    return f"""# {manifest["name"]}: a training step

Forward, loss (`{manifest["loss"]}`), backward and update ({optimizer["name"]}, lr {optimizer["lr"]:g}), made faster by
Fuseworks; {how}. {speedup}

## Try it

```
python -m venv venv && venv/bin/pip install -r requirements.txt
venv/bin/python train_step.py --self-test
```

It trains on a few saved batches and compares the losses with the measured ones (`--eager` does without compiling).

## Train with it

```python
from train_step import load, parameters

step = load()                       # load(model.state_dict()) begins from other weights
for batch in batches:               # tensors in this order
    loss = step(*batch)
model.load_state_dict(parameters(step), strict=False)
```

| tensor | dtype | shape |
|---|---|---|
{inputs}

Every batch has these very shapes. Dropout is off, as it was while the step was measured.

Start the script in the settings that the step was measured in (`train_step.py` as a command does so by itself):

```
{settings or "# none"}
```

torch {manifest["toolchain"]["torch"]} on a CPU. Recipe: `{manifest.get("recipe_digest") or "none"}`.
"""
