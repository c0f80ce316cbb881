"""Small traces made by hand, whose facts a person can work out. Times in microseconds from the start."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.recording import read
from optimizer.diagnosing.traces.summary import summarize

A100 = {
    "id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 80_000_000_000,
    "computeMajor": 8, "computeMinor": 0, "numSms": 108,
}  # fmt: skip
V100 = {**A100, "name": "Tesla V100-SXM2-16GB", "totalGlobalMem": 16_000_000_000, "computeMajor": 7, "numSms": 80}
HOST, STREAM = 100, 7


class Building:
    """One rank's trace. A kernel is launched `ahead` of its start by a call of 2 us, unless it is said otherwise."""

    def __init__(self, *, rank: int | None = None, world_size: int | None = None, device: dict[str, Any] | None = None):
        self.header: dict[str, Any] = {"schemaVersion": 1}
        if device is not None:
            self.header["deviceProperties"] = [device]
        if rank is not None:
            self.header["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world_size or 2}
        self.events: list[dict[str, Any]] = []
        self._correlation = 0

    def add(self, cat: str, name: str, start: float, duration: float, *, tid: Any = HOST, **args: Any) -> None:
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": duration}
        self.events.append({**event, "args": args} if args else event)

    def step(self, number: int, start: float, duration: float) -> None:
        self.add("user_annotation", f"ProfilerStep#{number}", start, duration)

    def op(self, name: str, start: float, duration: float, **args: Any) -> None:
        self.add("cpu_op", name, start, duration, **args)

    def call(self, name: str, start: float, duration: float, **args: Any) -> None:
        self.add("cuda_runtime", name, start, duration, **args)

    def kernel(
        self,
        name: str,
        start: float,
        duration: float,
        *,
        cat: str = "kernel",
        ahead: float = 20.0,
        launch_us: float = 2.0,
        call: str = "cudaLaunchKernel",
        stream: int = STREAM,
        device: int = 0,
        **args: Any,
    ) -> None:
        self._correlation += 1
        self.call(call, start - ahead, launch_us, correlation=self._correlation)
        known = {"device": device, "stream": stream, "correlation": self._correlation}
        self.add(cat, name, start, duration, tid=stream, **known, **args)

    def copy(self, kind: str, start: float, duration: float, size: int = 1024, **more: Any) -> None:
        more.setdefault("call", "cudaMemcpyAsync")
        self.kernel(f"Memcpy {kind}", start, duration, cat="gpu_memcpy", bytes=size, **more)

    def document(self) -> dict[str, Any]:
        return {**self.header, "traceEvents": self.events}

    def text(self) -> str:
        return json.dumps(self.document())

    def write(self, path: Path) -> Path:
        data = self.text().encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path

    def read(self, name: str = "trace.json") -> RankTrace:
        return summarize(read(iter([self.text()])), name)
