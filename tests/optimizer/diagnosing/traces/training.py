"""A healthy training on one GPU, written event by event, into which a cause can be planted in every step.

A step takes some 10 ms: products in bfloat16 on tensor cores, fused attention, compiled elementwise kernels, gradients
that are reduced beside the backward pass, a fused optimizer, one pinned copy beside the kernels. The host runs ahead.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.optimizer.diagnosing.traces.building import A100, Building

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
ATTENTION = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128> >(Flash_fwd_params)"
COMPILED = "triton_poi_fused_add_gelu_3"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
OPTIMIZER = (
    "void at::native::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float> >"
)
BUCKET = {"Collective name": "allreduce", "In msg nelems": 4_194_304, "dtype": "BFloat16", "Group size": 8}
AHEAD_US, BEHIND_US = 3_000.0, 4.0

Plant = Callable[["Training"], None]


class Training:
    """`now`: where the main stream's work ends so far. `pace`: how long products take, beside their usual time."""

    def __init__(
        self,
        *,
        seed: int = 0,
        rank: int | None = 0,
        device: dict[str, Any] | None = A100,
        gemm: str = GEMM,
        steps: int = 4,
    ) -> None:
        self.job = Building(rank=rank, world_size=8, device=device)
        self.rng = random.Random(seed)
        self.gemm, self.steps = gemm, steps
        self.now = 10_000.0
        self.pace = 1.0
        self.steps_done = 0
        self._behind = False

    def about(self, us: float) -> float:
        return us * self.rng.uniform(0.9, 1.1)

    def work(self, name: str, us: float, *, op: str | None = None, **more: Any) -> None:
        """The next kernel of the main stream. `op` stands around its launch."""
        ahead = more.pop("ahead", self._ahead())
        self._behind = False
        if op is not None:
            self.job.op(op, self.now - ahead - 1, 4, **more.pop("inputs", {}))
        more.setdefault("blocks per SM", 8.0)
        self.job.kernel(name, self.now, us, ahead=ahead, **more)
        self.now += us

    def _ahead(self) -> float:
        return BEHIND_US if self._behind else AHEAD_US

    def gap(self, us: float) -> float:
        """The queue is empty for so long: the host is behind. Where the gap begins."""
        began, self._behind = self.now, True
        self.now += us
        return began

    def reduced(self, us: float, *, exposed: bool = False, **message: Any) -> None:
        """A collective: beside the products that come next, or alone."""
        told = {**BUCKET, **message}
        self.job.kernel(NCCL, self.now, us, ahead=self._ahead(), stream=20, **told)
        if exposed:
            self.now += us

    def run(self, plant: Plant | None = None) -> Building:
        for number in range(self.steps):
            began = self.now
            self._forward()
            if plant is not None:
                plant(self)
            self._backward()
            self.gap(15.0)
            self.job.step(number + 1, began, self.now - began)
            self.steps_done = number + 1
        return self.job

    def _forward(self) -> None:
        self.job.copy(
            "HtoD (Pinned -> Device)", self.now + 50, self.about(80), size=1 << 20, ahead=self._ahead(), stream=30
        )
        for _ in range(4):
            self._layer()

    def _backward(self) -> None:
        for _ in range(3):
            self.reduced(150.0)
            self._layer()
            self._layer()
        self.work(OPTIMIZER, self.about(200), op="aten::_fused_adamw_")

    def _layer(self) -> None:
        inputs = {"Input Dims": [[4096, 1024], [1024, 4096]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
        self.work(self.gemm, self.pace * self.about(400), op="aten::mm", inputs=inputs)
        self.work(ATTENTION, self.pace * self.about(200), op="aten::_flash_attention_forward")
        self.work(NORM, self.about(60), op="aten::native_layer_norm")
        self.work(COMPILED, self.about(120))
        self.work(self.gemm, self.pace * self.about(200), op="aten::mm", inputs=inputs)
