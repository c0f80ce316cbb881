"""Writes what a team deploys: artifact, manifest, run.py, pinned requirements and README, as a folder and a zip.

The package is the same byte for byte when it is written twice from the same artifact. The upload's code is never in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optimizer import denormals as flushing
from optimizer import machine
from optimizer.compiling.pairs import OTHERWISE
from optimizer.packaging.artifact import collect
from optimizer.packaging.loading import LIBRARIES, loading
from optimizer.packaging.readme import readme
from optimizer.recipe.matching import features_needed
from optimizer.result import Artifact
from optimizer.spec import InputSpec, Step, Workload, dump_step

MANIFEST_VERSION = "1.0"
TEMPLATE = Path(__file__).parent / "run_template.py"
PROMISE_TEMPLATE = Path(__file__).parent / "promise_template.py"
DENORMALS = Path(flushing.__file__)
# compiled with -march=native: they may use all that this CPU has
NATIVE_BACKENDS = frozenset({"aot_inductor", "torchao"})
# of /proc/cpuinfo's flags those that a compiler uses by itself under -march=native (AMX it does not)
_NATIVE_FLAGS = re.compile(
    r"^(sse4_[12]|ssse3|popcnt|avx\w*|fma|f16c|bmi[12]|abm|movbe|adx|gfni|vaes|vpclmulqdq|asimd\w*|sve\w*|bf16|i8mm)$"
)
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_STORE_ABOVE_BYTES = 4 << 20


@dataclass(frozen=True)
class Sample:
    """A verified call: `run.py --self-test` must reproduce each output within its entry of
    `allowed_errors`, shares of its spread."""

    inputs: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]
    allowed_errors: Sequence[float]


def write_package(
    out: Path,
    *,
    name: str,
    backend: str,
    options: Mapping[str, Any],
    steps: Sequence[Step],
    artifact_folder: Path | None,
    model: Path | None = None,
    workload: Workload,
    outputs: Sequence[Mapping[str, Any]],
    libraries: Mapping[str, str],
    environment: Mapping[str, str],
    threads: int,
    denormals: str = "kept",
    target: str = "cpu",
    precision: str = "float32",
    details: Mapping[str, Any] | None = None,
    model_sha256: str | None = None,
    recipe_digest: str | None = None,
    speedup: str | None = None,
    sample: Sample | None = None,
) -> list[Artifact]:
    """Writes `out/package/` and `out/package.zip`.

    `artifact_folder` holds what the backend built; without files in it the `model` is packaged (eager). `details`
    are the build's and `outputs` the inspection's; `libraries` are the versions that the contender was measured with,
    `environment` is `runtime_settings.environment`'s answer, `speedup` the verdict in words for the README.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".package-", dir=out))
    try:
        os.chmod(folder, 0o755)
        collect(folder, backend, artifact_folder, model)
        kind, _, arch = target.partition(":")
        manifest: dict[str, Any] = {
            "schema_version": MANIFEST_VERSION,
            "kind": "fuseworks.package",
            "name": name,
            "model_sha256": model_sha256,
            "recipe_digest": recipe_digest,
            "backend": backend,
            "backend_options": dict(options),
            "steps": [dump_step(step) for step in steps],
            "inference_precision": precision,
            "inputs": [_input(spec) for spec in workload.inputs],
            "dims": {dim: facts.model_dump() for dim, facts in workload.dims.items()},
            "outputs": [{key: o[key] for key in ("name", "dtype", "shape") if key in o} for o in outputs],
            "toolchain": {
                library: libraries[library].partition("+")[0] for library in sorted({"numpy", *LIBRARIES[backend]})
            },
            "device": {
                "kind": kind,
                "arch": arch or None,
                "system": platform.system() if backend in NATIVE_BACKENDS else None,
                "machine": platform.machine() if backend in NATIVE_BACKENDS else None,
                "isa": _isa(backend, precision, details or {}) if kind == "cpu" else [],
            },
            "settings": {"environment": dict(environment), "threads": threads, "denormals": denormals},
            "load": loading(backend, folder, options, details or {}, workload),
            "promise": _promise(backend, folder, options, details or {}, workload),
            "check": None,
        }
        if sample is not None:
            manifest["check"] = _write_sample(folder, sample, workload)
        shutil.copyfile(TEMPLATE, folder / "run.py")
        if manifest["promise"] is not None:
            shutil.copyfile(PROMISE_TEMPLATE, folder / "promise.py")
        if denormals == "flushed":
            shutil.copyfile(DENORMALS, folder / "denormals.py")
        pins = "".join(f"{library}=={version}\n" for library, version in manifest["toolchain"].items())
        (folder / "requirements.txt").write_text(pins, encoding="utf-8")
        (folder / "README.md").write_text(readme(manifest, speedup), encoding="utf-8")
        _write_manifest(folder, manifest)
        for path in folder.iterdir():
            path.chmod(0o755 if path.name == "run.py" else 0o644)
        final = out / "package"
        if final.exists():
            shutil.rmtree(final)
        folder.rename(final)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    archive = out / "package.zip"
    _zip(final, archive)
    return [_artifact("package", archive, out), _artifact("manifest", final / "manifest.json", out)]


def _promise(
    backend: str, folder: Path, options: Mapping[str, Any], details: Mapping[str, Any], workload: Workload
) -> dict[str, Any] | None:
    """What must hold for the artifact to be right, and how the one is loaded that answers where it does not."""
    if not details.get("promised"):
        return None
    load = loading(backend, folder, options, details["otherwise"], workload, prefix=OTHERWISE)
    names = list(details["promised"])
    places = [place for place, spec in enumerate(workload.inputs) if spec.name in names]
    return {"same_over_batch": names, "places": places, "load": load}


def _input(spec: InputSpec) -> dict[str, Any]:
    document: dict[str, Any] = {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
    if spec.dtype.startswith(("int", "uint")) and spec.values is not None and spec.values.below is not None:
        document["integers"] = {"from": spec.values.from_, "below": spec.values.below}
    return document


def _isa(backend: str, precision: str, details: Mapping[str, Any]) -> list[str]:
    """What the processor must have: all that compiled code may use, or what makes a precision worth its error."""
    here = machine.cpu_isa()
    needed = {str(flag) for flag in details.get("isa") or []}
    if backend in NATIVE_BACKENDS:
        needed |= {flag for flag in here if _NATIVE_FLAGS.match(flag)}
    needed |= set(features_needed(precision, here))
    return sorted(needed)


def _write_sample(folder: Path, sample: Sample, workload: Workload) -> dict[str, Any]:
    # the wire makes an array of rank 0 one of shape (1,)
    if len(sample.allowed_errors) != len(sample.outputs):
        raise ValueError(f"{len(sample.allowed_errors)} allowed errors for {len(sample.outputs)} outputs")
    inputs = [a if spec.shape else a.reshape(()) for a, spec in zip(sample.inputs, workload.inputs, strict=True)]
    arrays = {f"in_{i}": a for i, a in enumerate(inputs)} | {f"out_{i}": a for i, a in enumerate(sample.outputs)}
    with zipfile.ZipFile(folder / "check.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():  # by hand: np.savez writes the time of day into the archive
            with archive.open(zipfile.ZipInfo(f"{key}.npy", _ZIP_EPOCH), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return {"file": "check.npz", "allowed_errors": list(sample.allowed_errors)}


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    files = {p.name: {"sha256": _sha256(p), "size_bytes": p.stat().st_size} for p in sorted(folder.iterdir())}
    manifest = {**manifest, "files": files}
    # the form that run.py recomputes with the standard library alone
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    manifest["digest"] = hashlib.sha256(canonical.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _zip(folder: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.iterdir()):
            info = zipfile.ZipInfo(f"package/{path.name}", _ZIP_EPOCH)
            info.external_attr = (stat.S_IFREG | (0o755 if path.name == "run.py" else 0o644)) << 16
            # weights hardly shrink: time for nothing
            stored = path.stat().st_size > _STORE_ABOVE_BYTES
            info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            with path.open("rb") as source, archive.open(info, "w", force_zip64=True) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _artifact(name: str, path: Path, out: Path) -> Artifact:
    relative = path.relative_to(out).as_posix()
    return Artifact(name=name, path=relative, size_bytes=path.stat().st_size, sha256=_sha256(path))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
