"""How `run.py` loads what each backend leaves: the entry file and the settings, as the manifest records them.

The settings are those that the contender was verified and measured with; a backend that is not listed has no package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optimizer.packaging.errors  # noqa: F401 -- files the error texts
from optimizer.compiling.base import serving_sizes
from optimizer.compiling.pairs import OTHERWISE
from optimizer.errors import FuseworksError
from optimizer.spec import Workload

LIBRARIES = {
    "eager": ["torch"],
    "inductor": ["torch"],
    "aot_inductor": ["torch"],
    "torchao": ["torch"],  # it is compiled: nothing of torchao is left to be loaded
    "onnxruntime": ["onnxruntime"],
    "openvino": ["openvino"],
}


def loading(
    backend: str,
    folder: Path,
    options: Mapping[str, Any],
    details: Mapping[str, Any],
    workload: Workload,
    prefix: str = "",
) -> dict[str, Any]:
    """The manifest's `load`. `details` are what `compiling.build` answered; its `load` fields win. `prefix`: of the
    second artifact's files, where there is a pair of them."""
    if backend not in _SETTINGS:
        raise FuseworksError("packaging:ours:no-artifact", backend=backend, text="no loader is known for it")
    suffix, settings = _SETTINGS[backend]
    if "CUDAExecutionProvider" in (dict(details.get("load") or {}).get("providers") or ()):
        text = "a package for its CUDA provider is not written yet"
        raise FuseworksError("packaging:ours:no-artifact", backend=backend, text=text)
    own = [p.name for p in folder.iterdir() if p.name.startswith(OTHERWISE) == bool(prefix)]
    entries = sorted(name.removeprefix(prefix) for name in own if name.endswith(suffix))
    wanted = details.get("entry")
    if (len(entries) != 1) if wanted is None else (wanted not in entries):
        raise FuseworksError("packaging:ours:no-artifact", backend=backend, text=f"{suffix} files: {entries}")
    found = {"entry": wanted or entries[0], **settings(options, workload), **dict(details.get("load") or {})}
    return {**found, **{key: prefix + found[key] for key in ("entry", "cache") if key in found}}


def _nothing(options: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    return {}


def _onnxruntime(options: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    return {"graph_optimization_level": "ORT_ENABLE_ALL", "session_config": {}, "providers": ["CPUExecutionProvider"]}


def _openvino(options: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    # the hint is pinned: OpenVINO takes bfloat16 by itself on a CPU that has it
    settings: dict[str, Any] = {"device": "CPU", "config": {"INFERENCE_PRECISION_HINT": "f32"}, "fixed_shapes": []}
    if options.get("static") and workload.dims:
        sizes = serving_sizes(workload)
        settings["fixed_shapes"] = [[list(workload.shape_of(spec, s)) for spec in workload.inputs] for s in sizes]
    return settings


_SETTINGS: dict[str, tuple[str, Callable[[Mapping[str, Any], Workload], dict[str, Any]]]] = {
    "eager": (".pt2", _nothing),
    "inductor": (".pt2", _nothing),
    "aot_inductor": (".pt2", _nothing),
    "torchao": (".pt2", _nothing),
    "onnxruntime": (".onnx", _onnxruntime),
    "openvino": (".xml", _openvino),
}
