#!/usr/bin/env python3
"""Runs this package: checks toolchain, device, files and inputs, and only then the model.

    python run.py --info                               what is in the package and how it must be called
    python run.py --self-test                          draws inputs by the contract, runs them, prints the latency
    python run.py --inputs x.npz --outputs y.npz       arrays by input name in, arrays by output name out
    from run import Model; Model().predict({"x": array}) -> {"output": array}

Exit codes: 0 done, 3 the package cannot run here or was changed, 4 the inputs break the contract. Made by Fuseworks;
needs numpy and the library named in requirements.txt, nothing else.
"""

from __future__ import annotations

import argparse
import atexit
import hashlib
import importlib.metadata
import json
import os
import platform
import runpy
import shutil
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

try:
    import numpy as np
except ModuleNotFoundError:
    if __name__ != "__main__":
        raise
    print("refused: numpy is needed; install requirements.txt", file=sys.stderr)
    sys.exit(3)

RESTARTED = "FUSEWORKS_PACKAGE_RESTARTED"
NUMPY_DTYPE = {"bfloat16": "float32"}  # numpy has no bfloat16: such an input is handed over as float32


class PackageRefused(RuntimeError):
    exit_code = 3  # it cannot run here, or is not what was packaged


class InputRefused(ValueError):
    exit_code = 4  # they break the contract that the model was compiled and verified for


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        claimed = manifest.pop("digest")
    except (OSError, ValueError, KeyError) as error:
        raise PackageRefused(f"manifest.json cannot be read: {error!r}") from error
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if hashlib.sha256(canonical.encode()).hexdigest() != claimed:
        raise PackageRefused("manifest.json was changed after it was packaged (its digest does not match)")
    return {**manifest, "digest": claimed}


def check_files(folder: Path, manifest: dict[str, Any]) -> None:
    for name, entry in manifest["files"].items():
        try:
            with open(folder / name, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise PackageRefused(f"{name} is missing: {error.strerror}") from error
        if digest != entry["sha256"]:
            raise PackageRefused(f"{name} was changed after it was packaged (its SHA-256 does not match)")


def check_toolchain(manifest: dict[str, Any]) -> None:
    for library, wanted in manifest["toolchain"].items():
        try:
            installed = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError as error:
            raise PackageRefused(f"{library} {wanted} is needed; install requirements.txt") from error
        if library != "numpy" and installed.partition("+")[0] != wanted:
            text = f"{library} {wanted} is needed and {installed} is installed: the model was verified with the former"
            raise PackageRefused(f"{text} only. Install requirements.txt, or run Fuseworks again for the latter")


def cpu_features() -> set[str]:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return {f for line in lines if line.startswith(("flags", "Features")) for f in line.partition(":")[2].split()}


def check_device(manifest: dict[str, Any]) -> None:
    device = manifest["device"]
    here = {"system": platform.system(), "machine": platform.machine()}
    for fact, value in here.items():
        if device.get(fact) not in (None, value):
            raise PackageRefused(f"the package was built for {fact} {device[fact]}, and this is {value}")
    missing = sorted(set(device["isa"]) - cpu_features()) if device["kind"] == "cpu" else []
    if missing:
        raise PackageRefused(f"this CPU lacks {', '.join(missing)}, which the compiled code uses")
    if device["kind"] != "cpu":
        import torch

        if not torch.cuda.is_available():
            raise PackageRefused(f"the package needs a GPU ({device['arch']}), and none is usable here")
        properties = torch.cuda.get_device_properties(0)
        arch = getattr(properties, "gcnArchName", "").partition(":")[0] or f"sm_{properties.major}{properties.minor}"
        if arch != device["arch"]:
            raise PackageRefused(f"the package was built for {device['arch']}, and this GPU is {arch}")


def missing_settings(manifest: dict[str, Any]) -> dict[str, str]:
    """malloc and OpenMP read their settings once, when the process starts."""
    return {k: v for k, v in manifest["settings"]["environment"].items() if os.environ.get(k) != v}


def restart_with_settings(manifest: dict[str, Any]) -> None:
    """Replaces this process once by the same command in the settings that the model was measured in."""
    restarted, missing = os.environ.pop(RESTARTED, None) == manifest["digest"], missing_settings(manifest)
    if missing and restarted:
        print(f"warning: these settings do not stay set: {', '.join(missing)}", file=sys.stderr)
    elif missing:
        environment = {**os.environ, **missing, RESTARTED: manifest["digest"]}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def check_inputs(manifest: dict[str, Any], inputs: dict[str, Any]) -> dict[str, int]:
    """The size of each dynamic dimension. AOTInductor itself answers a batch beyond its maximum without a word."""
    specs = manifest["inputs"]
    if set(inputs) != {s["name"] for s in specs}:
        raise InputRefused(f"the inputs must be {[s['name'] for s in specs]}, and {sorted(inputs)} were given")
    sizes: dict[str, tuple[int, str]] = {}
    for spec in specs:
        name, array = spec["name"], inputs[spec["name"]]
        wanted = NUMPY_DTYPE.get(spec["dtype"], spec["dtype"])
        if getattr(array, "dtype", None) is None or array.dtype.name != wanted:
            raise InputRefused(f"{name}: dtype {wanted} is needed, not {getattr(array, 'dtype', type(array).__name__)}")
        if array.ndim != len(spec["shape"]):
            raise InputRefused(f"{name}: {len(spec['shape'])} dimensions {spec['shape']} are needed, not {array.shape}")
        for axis, (size, dim) in enumerate(zip(array.shape, spec["shape"], strict=True)):
            if isinstance(dim, int):
                if size != dim:
                    raise InputRefused(f"{name}: dimension {axis} must be {dim}, not {size}")
                continue
            low, high = manifest["dims"][dim]["min"], manifest["dims"][dim]["max"]
            if not low <= size <= high:
                raise InputRefused(f"{name}: {dim} (dimension {axis}) must lie in [{low}, {high}], not {size}")
            known, other = sizes.setdefault(dim, (size, name))
            if known != size:
                raise InputRefused(f"{name}: {dim} is {size} here and {known} in {other}; they must be equal")
        _check_integers(spec, array)
    return {dim: size for dim, (size, _) in sizes.items()}


def _check_integers(spec: dict[str, Any], array: Any) -> None:
    bounds = spec.get("integers")
    if bounds is None or array.size == 0:
        return
    low, below = bounds["from"], bounds["below"]  # one bound, or one per column of the last dimension
    wrong = (array < low) | (array >= np.asarray(below))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        limit = below[at[-1]] if isinstance(below, list) else below
        raise InputRefused(f"{spec['name']}: {array[at]} at {list(at)} is outside [{low}, {limit})")


class Model:
    """The packaged model. Construction checks files, toolchain and device; `predict` checks every input."""

    def __init__(self, folder: str | Path | None = None, *, threads: int | None = None) -> None:
        self.folder = Path(folder) if folder else Path(__file__).resolve().parent
        self.manifest = read_manifest(self.folder)
        check_files(self.folder, self.manifest)
        check_toolchain(self.manifest)
        check_device(self.manifest)
        if missing := missing_settings(self.manifest):
            text = f"started without {', '.join(missing)}: slower than measured; README.md says how to set them"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        load = {**self.manifest["load"], "threads": threads or self.manifest["settings"]["threads"]}
        flushes = self.manifest["settings"].get("denormals") == "flushed"  # in each thread that calls
        self._flush: Any = runpy.run_path(str(self.folder / "denormals.py"))["flush"] if flushes else bool
        self._flush()
        runner = LOADERS[self.manifest["backend"]]
        self._run = runner(self.folder, self.manifest, load)
        if promise := self.manifest.get("promise"):
            guarded = runpy.run_path(str(self.folder / "promise.py"))["guarded"]
            self._run = guarded(promise, self._run, runner(self.folder, self.manifest, {**load, **promise["load"]}))

    def predict(self, inputs: dict[str, Any]) -> dict[str, Any]:
        sizes = check_inputs(self.manifest, inputs)
        self._flush()
        outputs = self._run([inputs[spec["name"]] for spec in self.manifest["inputs"]])
        specs = self.manifest["outputs"]
        if len(outputs) != len(specs):
            raise PackageRefused(f"the model gave {len(outputs)} outputs where {len(specs)} were packaged")
        for spec, output in zip(specs, outputs, strict=True):
            shape = spec.get("shape", list(output.shape))
            expected = [sizes.get(d) if isinstance(d, str) else d for d in shape]
            if len(shape) != output.ndim or any(e not in (None, s) for e, s in zip(expected, output.shape)):  # noqa: B905
                raise PackageRefused(f"output {spec['name']} has shape {output.shape} where {shape} was packaged")
        return {spec["name"]: output for spec, output in zip(specs, outputs, strict=True)}


def _torch_runner(call: Any, manifest: dict[str, Any], load: dict[str, Any]) -> Any:
    import torch
    from torch.utils._pytree import tree_leaves

    torch.set_num_threads(load["threads"])
    torch.set_float32_matmul_precision("highest")
    dtypes = [getattr(torch, spec["dtype"]) for spec in manifest["inputs"]]
    device = "cpu" if manifest["device"]["kind"] == "cpu" else "cuda"

    def run(arrays: list[Any]) -> list[Any]:
        tensors = [
            torch.from_numpy(np.require(a, requirements=["C", "W"])).to(device=device, dtype=dtype)
            for a, dtype in zip(arrays, dtypes, strict=True)
        ]
        with torch.no_grad():
            leaves = [leaf.detach().cpu() for leaf in tree_leaves(call(tensors)) if isinstance(leaf, torch.Tensor)]
        return [(leaf.float() if leaf.dtype == torch.bfloat16 else leaf).numpy() for leaf in leaves]

    return run


def _load_aot_inductor(folder: Path, manifest: dict[str, Any], load: dict[str, Any]) -> Any:
    import torch

    # the loader itself: aoti_load_package would first probe the CPU with a C++ compiler; check_device did that here
    loader = torch._C._aoti.AOTIModelPackageLoader(str(folder / load["entry"]), "model", False, 1, -1)
    return _torch_runner(loader.boxed_run, manifest, load)


def _load_exported(folder: Path, manifest: dict[str, Any], load: dict[str, Any]) -> Any:
    import torch
    from torch.utils._pytree import tree_unflatten

    exported = torch.export.load(folder / load["entry"])
    module: Any = exported.module().to("cpu" if manifest["device"]["kind"] == "cpu" else "cuda")
    dims: list[list[int]] = load.get("mark_dynamic") or []
    if manifest["backend"] == "inductor":
        if load.get("cache"):
            if "scratch" not in load:  # it compiles at the first call: a pair must share one folder
                load["scratch"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="fuseworks-inductor-")
                atexit.register(shutil.rmtree, load["scratch"], ignore_errors=True)
            shutil.unpack_archive(folder / load["cache"], load["scratch"], filter="data")
        torch._dynamo.config.fail_on_recompile_limit_hit = True  # else it would go on in eager without a word
        module = torch.compile(module, fullgraph=True, dynamic=load.get("dynamic"), options=load.get("options") or None)
        # it compiles at the first call; Dynamo asks for this, and does not see the options of one compile
        torch._inductor.config.freezing = bool((load.get("options") or {}).get("freezing"))

    def call(tensors: list[Any]) -> Any:
        if "triton.cudagraphs" in (load.get("options") or {}):  # the next call overwrites what this one answers
            torch.compiler.cudagraph_mark_step_begin()
        for tensor, dynamic in zip(tensors, dims, strict=False):
            for dim in dynamic:
                torch._dynamo.maybe_mark_dynamic(tensor, dim)
        args, kwargs = tree_unflatten(tensors, exported.call_spec.in_spec)
        return module(*args, **kwargs)

    return _torch_runner(call, manifest, load)


def _load_onnxruntime(folder: Path, manifest: dict[str, Any], load: dict[str, Any]) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = load["threads"]
    options.inter_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, load["graph_optimization_level"])
    for key, value in load.get("session_config", {}).items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(str(folder / load["entry"]), options, load["providers"])
    names = [i.name for i in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))


def _load_openvino(folder: Path, manifest: dict[str, Any], load: dict[str, Any]) -> Any:
    import openvino

    core, path = openvino.Core(), str(folder / load["entry"])
    config = {**load["config"], "INFERENCE_NUM_THREADS": load["threads"]}

    def request(shapes: list[list[int]] | None = None) -> Any:
        model = core.read_model(path)
        if shapes:
            model.reshape({i.any_name: shape for i, shape in zip(model.inputs, shapes, strict=True)})
        return core.compile_model(model, load["device"], config).create_infer_request()

    general, lock = request(), threading.Lock()
    fixed = {tuple(map(tuple, shapes)): request(shapes) for shapes in load["fixed_shapes"]}

    def run(arrays: list[Any]) -> list[Any]:
        with lock:  # a request serves one call at a time and reuses its output buffers: hence the copies
            chosen = fixed.get(tuple(a.shape for a in arrays), general)
            outputs = chosen.infer(arrays, share_inputs=True, share_outputs=False)
            return [outputs[i] for i in range(len(outputs))]

    return run


LOADERS: dict[str, Any] = {"aot_inductor": _load_aot_inductor, "eager": _load_exported, "inductor": _load_exported}
LOADERS |= {"onnxruntime": _load_onnxruntime, "openvino": _load_openvino, "torchao": _load_aot_inductor}


def draw_inputs(manifest: dict[str, Any], sizes: dict[str, int], seed: int = 0, keep: bool = True) -> dict[str, Any]:
    random, inputs = np.random.default_rng(seed), {}
    for spec in manifest["inputs"]:
        dtype = NUMPY_DTYPE.get(spec["dtype"], spec["dtype"])
        shape = [sizes[d] if isinstance(d, str) else d for d in spec["shape"]]
        bounds = spec.get("integers") or {"from": 0, "below": 2}
        if dtype.startswith("float"):
            inputs[spec["name"]] = random.standard_normal(shape).astype(dtype)
        else:
            inputs[spec["name"]] = random.integers(bounds["from"], bounds["below"], shape, "int64").astype(dtype)
    for name in (manifest.get("promise") or {}).get("same_over_batch", []) if keep else []:
        inputs[name][:] = inputs[name][:1].copy()
    return inputs


def _check_sample(model: Model) -> str:
    """Runs the inputs that were packaged and compares with the outputs that were verified."""
    check = model.manifest.get("check")
    if check is None:
        return "no verified sample in this package"
    with np.load(model.folder / check["file"], allow_pickle=False) as sample:
        outputs = model.predict({spec["name"]: sample[f"in_{i}"] for i, spec in enumerate(model.manifest["inputs"])})
        worst = 0.0
        for i, (name, got) in enumerate(outputs.items()):
            wanted = sample[f"out_{i}"].astype(np.float64)
            spread = float(np.linalg.norm(wanted - wanted.mean())) or float(np.linalg.norm(wanted)) or 1.0
            error = float(np.linalg.norm(got.astype(np.float64) - wanted)) / spread
            if not error <= (allowed := check["allowed_errors"][i]):
                text = f"output {name} is off by {error:.2e} of its spread ({allowed:.2e} allowed)"
                raise PackageRefused(f"{text}: this machine does not compute what was verified")
            worst = max(worst, error)
    return f"verified sample reproduced, largest error {worst:.2e} of the spread"


def self_test(model: Model, calls: int) -> dict[str, Any]:
    times_ms, dims = [], model.manifest["dims"]  # times of `predict` as a service calls it
    model.predict(draw_inputs(model.manifest, {n: d["min"] for n, d in dims.items()}))
    model.predict(draw_inputs(model.manifest, {n: d["serve"][0] for n, d in dims.items()}, keep=False))
    sets = [draw_inputs(model.manifest, {n: d["serve"][0] for n, d in dims.items()}, seed) for seed in range(8)]
    for i in range(calls + calls // 5):  # the first sixth warms up
        start = time.perf_counter()
        model.predict(sets[i % len(sets)])
        times_ms.append((time.perf_counter() - start) * 1e3)
    measured = sorted(times_ms[calls // 5 :])
    return {
        "check": _check_sample(model),
        "sizes": {n: d["serve"][0] for n, d in dims.items()},
        "timed": "predict(): the checks of inputs and outputs, copies to and from the engine, and the model's call",
        "median_ms": measured[len(measured) // 2],
        "p90_ms": measured[int(len(measured) * 0.9)],
        "settings_in_force": not missing_settings(model.manifest),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--info", action="store_true", help="print the contract, the toolchain and the device")
    action.add_argument("--self-test", action="store_true", help="run the model on inputs drawn by the contract")
    action.add_argument("--inputs", metavar="NPZ", help="arrays by input name; needs --outputs")
    parser.add_argument("--outputs", metavar="NPZ")
    parser.add_argument("--calls", type=int, default=100, help="timed calls of --self-test")
    parser.add_argument("--threads", type=int, help="threads, when not those that were measured")
    given = parser.parse_args(arguments)
    if bool(given.inputs) != bool(given.outputs) or given.calls < 5:
        parser.error("--inputs and --outputs go together, and --calls is at least 5")
    folder = Path(__file__).resolve().parent
    try:
        manifest = read_manifest(folder)
        if given.info:
            check_files(folder, manifest)
            shown = {k: v for k, v in manifest.items() if k != "files"}
            print(json.dumps({**shown, "settings_in_force": not missing_settings(manifest)}, indent=2))
        else:
            restart_with_settings(manifest)
            model = Model(folder, threads=given.threads)
            if given.self_test:
                print(json.dumps(self_test(model, given.calls), indent=2))
            else:
                _predict_files(model, given.inputs, given.outputs)
    except (PackageRefused, InputRefused) as refused:
        print(f"refused: {refused}", file=sys.stderr)
        return refused.exit_code
    return 0


def _predict_files(model: Model, inputs: str, outputs: str) -> None:
    try:
        arrays = dict(np.load(inputs, allow_pickle=False))
    except (OSError, ValueError) as error:
        raise InputRefused(f"{inputs} is no readable .npz of plain arrays: {error}") from error
    np.savez(outputs, **model.predict(arrays))


if __name__ == "__main__":
    sys.exit(main())
