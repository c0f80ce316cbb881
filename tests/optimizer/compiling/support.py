"""A small ranker in both formats, and children that build and load it. What eager answers here is the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import optimizer.compiling.errors  # noqa: F401
from optimizer.sandbox import ChildSpec, Reply, start
from optimizer.spec import Workload

TABLE_ROWS = 50
WORKLOAD = Workload.model_validate(
    {
        "inputs": [
            {"name": "ids", "dtype": "int64", "shape": ["batch"], "values": {"below": TABLE_ROWS}},
            {"name": "dense", "dtype": "float32", "shape": ["batch", 4]},
            {"name": "keep", "dtype": "bool", "shape": ["batch"]},
        ],
        "dims": {"batch": {"serve": [4, 8], "min": 1, "max": 16}},
    }
)


class Ranker(torch.nn.Module):
    """Integers, floats and bools in; two floats and an integer out, as a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(TABLE_ROWS, 8)
        self.hidden = torch.nn.Linear(12, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.head = torch.nn.Linear(16, 1)

    def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = torch.relu(self.norm(self.hidden(torch.cat([self.table(ids), dense], -1))))
        score = self.head(hidden).squeeze(-1)
        return {"score": torch.where(keep, score, score - 1), "hidden": hidden, "next": ids + 1}


def ranker() -> Ranker:
    torch.manual_seed(7)
    return Ranker().eval()


def inputs(batch: int, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng([seed, batch])
    return [
        random.integers(0, TABLE_ROWS, batch),
        random.standard_normal((batch, 4), dtype=np.float32),
        random.random(batch) < 0.5,
    ]


def truth(arrays: list[np.ndarray]) -> list[np.ndarray]:
    with torch.no_grad():
        answer = ranker()(*(torch.tensor(a) for a in arrays))
    return [answer[name].numpy() for name in ("score", "hidden", "next")]


def export(module: torch.nn.Module, batch: int = 4, dynamic: bool = True) -> torch.export.ExportedProgram:
    size = torch.export.Dim("batch", min=1, max=16)
    arguments = tuple(torch.tensor(a) for a in inputs(batch))
    shapes = tuple({0: size} for _ in arguments) if dynamic else None
    with torch.no_grad():
        return torch.export.export(module, arguments, dynamic_shapes=shapes)


@dataclass(frozen=True)
class Built:
    backend: str
    options: dict[str, Any]
    model: Path
    format: str
    folder: Path
    precision: dict[str, Any] | None
    reply: Reply | None


class Builder:
    """A child that builds. Several builds may share one where nothing depends on a fresh compiler."""

    def __init__(
        self, inputs: dict[str, Path], environment: dict[str, str] | None = None, trusted: bool = True
    ) -> None:
        self.inputs = inputs
        environment = {"OMP_NUM_THREADS": "1", **(environment or {})}
        self.child = start(ChildSpec(name="build", inputs=inputs, environment=environment, trusted=trusted))

    def build(
        self,
        name: str,
        out: Path,
        backend: str,
        options: dict[str, Any] | None = None,
        *,
        precision: dict[str, Any] | None = None,
        workload: Workload = WORKLOAD,
    ) -> Built:
        model = self.inputs[name]
        format = model.suffix.removeprefix(".")
        reply = self.child.call(
            "compiling.build",
            timeout_s=300,
            collect=out,
            backend=backend,
            options=options or {},
            precision=precision,
            model=self.child.path(name),
            toolchain=self.child.path("toolchain") if "toolchain" in self.inputs else None,
            format=format,
            workload=workload.model_dump(by_alias=True, mode="json"),
            threads=1,
            target="cpu",
        )
        return Built(backend, options or {}, model, format, out, precision, reply)

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()


class Loaded:
    """A fresh child with the artifact in it."""

    def __init__(
        self, built: Built, *, environment: dict[str, str] | None = None, trusted: bool = True, **more: Any
    ) -> None:
        paths = {k: v for k, v in more.items() if isinstance(v, Path)}
        given = {"model": built.model, **({"artifact": built.folder} if built.folder.exists() else {}), **paths}
        environment = {"OMP_NUM_THREADS": "1", **(environment or {})}
        self.child = start(ChildSpec(name="load", inputs=given, environment=environment, trusted=trusted))
        fields = {k: v for k, v in more.items() if k not in paths}
        try:
            self.reply = self.child.call(
                "compiling.load",
                timeout_s=200,
                backend=built.backend,
                options=built.options,
                precision=built.precision,
                **{name: self.child.path(name) for name in given},
                format=built.format,
                workload=WORKLOAD.model_dump(by_alias=True, mode="json"),
                threads=1,
                target="cpu",
                **fields,
            )
        except BaseException:
            self.child.kill()
            raise

    def outputs(self, *sets: list[np.ndarray], **more: Any) -> list[list[np.ndarray]]:
        """One list of outputs per input set."""
        flat = [array for arrays in sets for array in arrays]
        reply = self.child.call("verifying.run", flat, timeout_s=200, sets=len(sets), **more)
        count = reply.fields["outputs_per_set"]
        return [reply.arrays[i : i + count] for i in range(0, len(reply.arrays), count)]

    def __enter__(self) -> Loaded:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()


def assert_right(loaded: Loaded, batches: tuple[int, ...] = (4, 1, 3, 7, 16), tolerance: float = 2e-5) -> None:
    """Every output at every batch: dtype, shape and values as eager gives them."""
    sets = [inputs(batch, seed=batch) for batch in batches]
    for given, answer in zip(sets, loaded.outputs(*sets), strict=True):
        wanted = truth(given)
        assert [(a.dtype, a.shape) for a in answer] == [(w.dtype, w.shape) for w in wanted]
        for a, w in zip(answer, wanted, strict=True):
            np.testing.assert_allclose(a, w, rtol=0, atol=tolerance)


def counting_compiler(folder: Path) -> tuple[dict[str, str], Path]:
    """An environment whose `g++` writes a line to a log at each compile, and the log. Asking for a version is none."""
    # called by its bare name: what the compiler says of itself, which is part of the keys, holds how it was called
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "compiles.log"
    log.touch()
    shim = folder / "g++"
    log_unless_asked = f'case "$1" in -v|--version) ;; *) echo "$*" >> "{log}" ;; esac'
    shim.write_text(f'#!/bin/sh\n{log_unless_asked}\nexport PATH=/usr/bin:/bin\nexec g++ "$@"\n')
    shim.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}, log


def assert_held(loaded: Loaded) -> None:
    """An answer that is kept does not change with the next call."""
    first, second = inputs(4, 1), inputs(4, 2)
    *_, held = loaded.outputs(first, second, hold=True)
    for got, wanted in zip(held, truth(first), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5)
