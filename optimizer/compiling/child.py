"""Operations of a child that compiles or loads a candidate, and of the trusted one that seeds the toolchain."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import optimizer.compiling.errors  # noqa: F401
from optimizer import denormals, machine
from optimizer.children.session import Session
from optimizer.compiling.base import BACKENDS, Backend, Context, resolve
from optimizer.compiling.contender import Contender
from optimizer.compiling.pairs import take_apart
from optimizer.errors import FuseworksError
from optimizer.spec import PrecisionStep, Workload

COMPILED_AT_CALL = frozenset({"inductor", "inductor_step"})
COMPILED_IN_CXX = frozenset({"aot_inductor", "torchao"}) | COMPILED_AT_CALL
Answer = tuple[dict[str, Any], list[np.ndarray]]


class Loading(NamedTuple):
    """What a contender was loaded of."""

    backend: Backend
    artifact: Path | None
    options: Any
    context: Context


def available(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{target?} → {backends: {name: null | reason}}."""
    target = str(request.get("target") or "cpu")
    return {"backends": {backend.name: backend.unavailable(target) for backend in BACKENDS}}, []


def build(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{backend, options, precision, model, format, workload, threads, target, toolchain?, marked?}
    → {compile_s, details}. `marked`: the artifact that is profiled in place of one whose kernels record nothing."""
    backend, options, context = _understood(session, request)
    _make_ready(backend, context, request, compiles=backend.name in COMPILED_IN_CXX)
    backend.prepare()
    started = time.perf_counter()
    model = _in_precision(backend, context)
    out = Path(tempfile.mkdtemp(prefix="artifact-", dir=session.scratch))
    if request.get("marked"):
        backend.build_marked(model, options, context, out)
        details = _headers_made(backend)
    else:
        details = {**backend.build(model, options, context, out), **_headers_made(backend)}
    compile_s = time.perf_counter() - started
    for path in sorted(out.iterdir()):
        session.send_file(path.name, path)
        path.unlink()
    return {"compile_s": compile_s, "details": {"inference_precision": context.precision_name, **details}}, []


def load(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """Puts a contender into `session.state["contender"]`, and what it was loaded of beside it, for its profile.

    {backend, options, precision, artifact, model, upload?, upload_format?, weights?, seed?, format, workload, threads,
    target, promised?, denormals?} → {load_s, inference_precision, threads, libraries, rss_bytes_after_import}.
    `promised`: the inputs on which the artifact relies to repeat over the batch; then it is a pair (`pairs.py`).
    """
    backend, options, context = _understood(session, request)
    _make_ready(backend, context, request, compiles=backend.name in COMPILED_AT_CALL)
    backend.prepare()
    if request.get("denormals") == "flushed":
        _flush_denormals(backend)  # before the engine starts its threads, which take it over
    rss_bytes = _rss_bytes()
    started = time.perf_counter()
    artifact = Path(request["artifact"]) if request.get("artifact") else None
    promised = [str(name) for name in request.get("promised") or []]
    if promised:
        assert artifact is not None
        artifact, otherwise = take_apart(artifact, session.scratch)
        contender: Contender = _guarded(backend, artifact, otherwise, options, context, promised)
    else:
        contender = backend.load(artifact, options, context)
    session.state["contender"] = contender
    session.state["loaded"] = Loading(backend, artifact, options, context)
    return {
        "load_s": time.perf_counter() - started,
        "inference_precision": contender.inference_precision,
        "threads": context.threads,
        "libraries": machine.library_versions(("numpy", *backend.libraries)),
        # of an engine with an allocator of its own on a GPU, resident memory tells nothing
        "rss_bytes_after_import": rss_bytes if contender.device in {"cpu", "cuda"} else None,
    }, []


def _guarded(
    backend: Backend, usual: Path, otherwise: Path, options: Any, context: Context, promised: list[str]
) -> Contender:
    from optimizer.compiling.guarded import Guarded

    names = [spec.name for spec in context.workload.inputs]
    places = [names.index(name) for name in promised]
    fast, always = backend.load(usual, options, context), backend.load(otherwise, options, context)
    return Guarded(fast, always, places, fast.device, fast.inference_precision)


def seed_toolchain(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{} → {seconds, isa, files}. For a trusted child only: what it leaves serves every upload."""
    from optimizer.compiling.seeding import seed

    return seed(session), []


def _understood(session: Session, request: dict[str, Any]) -> tuple[Backend, Any, Context]:
    format = str(request["format"])
    backend, options = resolve(str(request["backend"]), dict(request.get("options") or {}), format)
    precision = PrecisionStep.model_validate(request["precision"]) if request.get("precision") else None
    context = Context(
        workload=Workload.model_validate(request["workload"]),
        threads=int(request["threads"]),
        target=str(request.get("target") or "cpu"),
        scratch=session.scratch,
        format=format,  # type: ignore[arg-type]
        model=Path(request["model"]),
        precision=precision,
        upload=Path(request["upload"]) if request.get("upload") else None,
        upload_format=request.get("upload_format"),
        weights=Path(request["weights"]) if request.get("weights") else None,
        seed=int(request.get("seed") or 0),
    )
    reason = backend.unavailable(context.target)
    if reason is not None:
        text, _, remedy = reason.partition(": ")
        raise FuseworksError("compiling:ours:unavailable", engine=backend.title, text=text, remedy=remedy)
    return backend, options, context


def _make_ready(backend: Backend, context: Context, request: dict[str, Any], *, compiles: bool) -> None:
    """The process-wide settings of an engine. Set once per child: a child serves one candidate."""
    if context.device == "cuda":
        from optimizer.compiling.gpu import check_gpu

        check_gpu(backend.title, context.target)
    if "torch" not in backend.libraries:
        return
    import torch

    from optimizer.compiling.torch_program import pin_precision

    torch.set_num_threads(context.threads)
    torch.set_grad_enabled(False)
    pin_precision()
    if compiles:
        # importing Inductor costs seconds: a child that loads a finished package does without
        from optimizer.compiling.inductor_setup import set_up

        toolchain = request.get("toolchain")
        set_up(context.scratch, Path(toolchain) if toolchain else None)


def _headers_made(backend: Backend) -> dict[str, int]:
    """Shows in the details when the seeded toolchain did not fit: such a build is 20 s slower."""
    if backend.name not in COMPILED_IN_CXX:
        return {}
    from optimizer.compiling.inductor_setup import headers_made

    return {"headers_made": headers_made()}


def _in_precision(backend: Backend, context: Context) -> Path:
    """The model that the backend compiles: rewritten for a lower precision, unless the engine lowers it itself."""
    if context.precision_name == "float32" or context.precision_name in backend.own_precisions:
        return context.model
    if context.format != "pt2":
        raise FuseworksError(
            "compiling:user:unsupported",
            engine=backend.title,
            text=f"it computes no {context.precision_name} by itself, and an ONNX graph is not rewritten for it",
        )
    import torch

    from optimizer.compiling.precision import to_bfloat16, to_int8
    from optimizer.compiling.torch_program import load_program, lowered

    step = context.precision
    assert step is not None
    exported = lowered(load_program(context.model), context)
    if step.precision == "int8":
        exported = to_int8(exported, step.keep_float32, step.weight_only)
    if "bfloat16" in (step.precision, step.rest):
        exported = to_bfloat16(exported, step.rest_keep_float32 if step.precision == "int8" else step.keep_float32)
    path = context.scratch / "in_precision.pt2"
    torch.export.save(exported, path)
    return path


def _flush_denormals(backend: Backend) -> None:
    if not denormals.flush():
        text = denormals.unavailable() or "this processor keeps denormals whatever it is told"
        remedy = "Leave denormals as they are (denormals: kept)"
        raise FuseworksError("compiling:ours:unavailable", engine=backend.title, text=text, remedy=remedy)


def _rss_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


OPERATIONS = {"available": available, "build": build, "load": load, "seed_toolchain": seed_toolchain}
