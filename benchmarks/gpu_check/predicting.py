"""What is predicted of the four models, for each of NVIDIA's devices of the table: kept beside this file as JSON.

Made where Fuseworks is whole and no GPU needed (`python -m benchmarks.gpu_check predict`), since a machine with a GPU
may lack what it takes. Before: the graph as captured, what torch.compile runs; after: with our fusion pass alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu_check import record
from benchmarks.gpu_check.plan import MODELS
from kernels.aot.devices import KNOWN
from optimizer.errors import EXIT_DONE, EXIT_OURS

FILE = Path(__file__).with_name("predictions.json")
DEVICES = tuple(device.name for device in KNOWN if device.maker == "nvidia")


def write_predictions(names: Sequence[str] = DEVICES) -> int:
    """Each device in a process of its own: one lowers for one target only. What is of today's source stays."""
    head = _head()
    kept = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    same = all(kept.get(field) == head[field] for field in ("torch", "triton", "source"))
    devices: dict[str, Any] = kept["devices"] if same else {}
    for name in [one for one in names if one not in devices]:
        print(f"predicting for {name}", file=sys.stderr)
        command = [sys.executable, "-m", "benchmarks.gpu_check.predicting", name]
        done = subprocess.run(command, cwd=record.ROOT, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return EXIT_OURS
        devices[name] = json.loads(done.stdout)
        FILE.write_text(json.dumps({**head, "devices": devices}, indent=1) + "\n", encoding="utf-8")
    return EXIT_DONE


def _head() -> dict[str, Any]:
    import torch
    import triton

    today = datetime.now(UTC).date().isoformat()
    versions = {"torch": torch.__version__.partition("+")[0], "triton": triton.__version__}
    return {**versions, "date": today, "source": record.source(record.PREDICTED)}


def of_device(name: str) -> dict[str, Any]:
    """By model: `before` and `after`, each the two ends in milliseconds and the number of launches."""
    import triton

    from optimizer.compiling.inductor_setup import set_up
    from optimizer.predicting.assembling import Assembler

    device = next(one for one in KNOWN if one.name == name)
    with tempfile.TemporaryDirectory(prefix="predicting-") as folder:
        scratch = Path(folder)
        set_up(scratch)
        triton.knobs.cache.dir = str(scratch / "triton")
        assembler = Assembler(device, scratch)
        return {model: _of_model(model, device, assembler, scratch) for model in MODELS}


def _of_model(name: str, device: Any, assembler: Any, scratch: Path) -> dict[str, Any]:
    import torch

    from benchmarks.gpu_check.model_steps import load
    from optimizer.optimizing.base import run_passes
    from optimizer.optimizing.graph import Graph
    from optimizer.predicting.child import lower_one

    module, inputs = load(name)
    with torch.no_grad():
        exported = torch.export.export(module, inputs)
        graph = Graph.from_exported(exported)
        run_passes(graph, [("fuse_operations", {})])
        programs = {"before": exported, "after": graph.to_exported()}
    told: dict[str, Any] = {}
    for side, program in programs.items():
        path = scratch / f"{name}-{side}.pt2"
        torch.export.save(program, path)
        found = lower_one(path, _static(), device, assembler)
        path.unlink()
        told[side] = {"predicted_ms": list(found.predicted_ms), "launches": found.kernels_launched}
    return told


def _static() -> Any:
    """The graphs have no dims that vary: of a workload only the sizes of such dims would be asked."""
    from optimizer.spec import InputSpec, Workload

    return Workload(name="check", inputs=[InputSpec(name="any", dtype="int64", shape=[1])])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check.predicting")
    parser.add_argument("device")
    print(json.dumps(of_device(parser.parse_args().device)))
