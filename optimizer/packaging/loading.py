"""How `run.py` loads what each backend leaves: the entry file and the settings, as the manifest records them.

The settings are those that the contender was verified and measured with; a backend that is not listed has no package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optimizer.packaging.errors  # noqa: F401 -- files the error texts
from optimizer.errors import FuseworksError

Loading = Callable[[Path, Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]

LIBRARIES = {
    "eager": ["torch"],
    "inductor": ["torch"],
    "aot_inductor": ["torch"],
    "onnxruntime": ["onnxruntime"],
    "openvino": ["openvino"],
}


def loading(backend: str, folder: Path, options: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's `load`. `details` are what `compiling.build` answered; its `load` fields win."""
    if backend not in _SETTINGS:
        raise FuseworksError("packaging:ours:no-artifact", backend=backend, text="no loader is known for it")
    suffix, settings = _SETTINGS[backend]
    entries = sorted(p.name for p in folder.iterdir() if p.name.endswith(suffix))
    wanted = details.get("entry")
    if wanted is None and len(entries) != 1 or wanted is not None and wanted not in entries:
        raise FuseworksError("packaging:ours:no-artifact", backend=backend, text=f"{suffix} files: {entries}")
    return {"entry": wanted or entries[0], **settings(options), **dict(details.get("load") or {})}


def _nothing(options: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _inductor(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"dynamic": options.get("dynamic", True), "options": dict(options.get("config") or {})}


def _onnxruntime(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "graph_optimization_level": options.get("graph_optimization_level", "ORT_ENABLE_ALL"),
        "session_config": dict(options.get("session_config") or {}),
        "providers": ["CPUExecutionProvider"],
    }


def _openvino(options: Mapping[str, Any]) -> dict[str, Any]:
    # pinned: OpenVINO takes bfloat16 by itself on a CPU that has it
    hint = {"bfloat16": "bf16"}.get(str(options.get("precision", "float32")), "f32")
    return {"device": "CPU", "config": {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY"}}


_SETTINGS: dict[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "eager": (".pt2", _nothing),
    "inductor": (".pt2", _inductor),
    "aot_inductor": (".pt2", _nothing),
    "onnxruntime": (".onnx", _onnxruntime),
    "openvino": (".xml", _openvino),
}
