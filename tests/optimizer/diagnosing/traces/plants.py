"""One cause each, planted into a healthy training: `us` is how much of each step of some 10 ms it takes."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.diagnosing.traces.document import RankTrace
from tests.optimizer.diagnosing.traces.building import A100, V100
from tests.optimizer.diagnosing.traces.training import AHEAD_US, GEMM, Training

NATIVE = "void at::native::"
ELEMENTWISE = NATIVE + "vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
INTO_VOLTA = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"


def kernels(name: str, count: int, op: str | None = None, **more: object) -> Callable[[Training, float], None]:
    """Work of these kernels, one after another."""

    def plant(training: Training, us: float) -> None:
        for _ in range(count):
            training.work(name, us / count, op=op, **more)

    return plant


def exposed(count: int, op: str | None = None, **message: object) -> Callable[[Training, float], None]:
    def plant(training: Training, us: float) -> None:
        for _ in range(count):
            if op is not None:
                training.job.op(op, training.now - 3000, 20)
            training.reduced(us / count, exposed=True, **message)

    return plant


def half_covered(training: Training, us: float) -> None:
    """Three quarters of it beside other work: much, and little of it exposed."""
    began = training.now
    training.reduced(us)
    training.work("triton_poi_fused_6", 0.75 * us)
    training.now = began + us


def data_loading(training: Training, us: float) -> None:
    began = training.gap(us)
    training.job.add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", began, us - 10)


def launch_bound(training: Training, us: float) -> None:
    """Kernels of 4 us, 12 us apart, each launched when the one before has ended."""
    for _ in range(int(us / 12)):
        began = training.gap(8.0)
        training.job.op("aten::native_dropout", began, 7.5)
        training.work("triton_poi_fused_0", 4.0)


def host_wait(training: Training, us: float) -> None:
    training.gap(us)


def host_synchronization(training: Training, us: float) -> None:
    for _ in range(16):
        training.work("triton_poi_fused_1", 20.0)
        training.job.op("aten::item", training.now - 15, 17)
        training.job.call("cudaStreamSynchronize", training.now - 15, 17)
        training.gap(us / 16)


def no_gpu_work(training: Training, us: float) -> None:
    """Launched long before, and waiting for something that the trace does not show."""
    training.gap(us)
    training.work("triton_poi_fused_2", 20.0, ahead=us + 3000)


def pageable(training: Training, us: float) -> None:
    training.job.copy("HtoD (Pageable -> Device)", training.now, us, size=1 << 24, ahead=3000)
    training.now += us


def many_tables(training: Training, us: float) -> None:
    kernels(NATIVE + "indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(float)", 20, "aten::embedding")(
        training, us
    )


def unfused(training: Training, us: float) -> None:
    for _ in range(40):
        for op in ("aten::mul_", "aten::add_", "aten::addcdiv_"):
            training.work(ELEMENTWISE, us / 120, op=op)


def attention(training: Training, us: float) -> None:
    for _ in range(4):
        training.work(
            NATIVE + "softmax_warp_forward<float, float, float, 10, false>(float*)", us / 4, op="aten::_softmax"
        )
        training.job.op("aten::bmm", training.now - 3000, 5)


def batch_norms(training: Training, us: float) -> None:
    exposed(24, "SyncBatchNorm", **{"In msg nelems": 64})(training, us)


def asks_the_driver(training: Training, us: float) -> None:
    began = training.gap(us)
    training.job.call("cudaFree", began, us / 2 - 5)
    training.job.call("cudaMalloc", began + us / 2, us / 2 - 5)


def compiles(training: Training, us: float) -> None:
    began = training.gap(us)
    training.job.op(f"Torch-Compiled Region: 0/{int(began) % 7}", began - 3000, 1)
    training.job.add("user_annotation", "_compile.compile_inner (dynamo_timed)", began, us - 5)


def breaks(training: Training, us: float) -> None:
    for frame in range(6):
        began = training.gap(us / 6)
        training.job.op(f"Torch-Compiled Region: {frame}/0", began + us / 6 - 2, 2)
        training.work("triton_poi_fused_3", 20.0)


def blocking_launches(training: Training, us: float) -> None:
    """Enough of them that nearly all launches of the trace wait."""
    for _ in range(600):
        training.gap(us / 600)
        training.work("triton_poi_fused_4", 12.0, ahead=BLOCKED_AHEAD_US, launch_us=BLOCKED_AHEAD_US + 13)


BLOCKED_AHEAD_US = 2.0


def collects(training: Training, us: float) -> None:
    began = training.gap(us)
    training.job.add("python_function", "<built-in function collect>", began, us - 5)


def doubles(training: Training, us: float) -> None:
    kernels("ampere_dgemm_64x64_nn", 5, "aten::mm")(training, us)


def checked_gradients(training: Training, us: float) -> None:
    for _ in range(24):
        training.work("triton_poi_fused_7", 20.0)
        began = training.now - 15
        training.job.op(f"{ENGINE}: MulBackward0", began, 40)
        training.job.op("aten::isnan", began + 1, 5)
        training.job.op("aten::item", began + 8, 10)
        training.job.call("cudaStreamSynchronize", began + 9, 8)
        training.gap(us / 24)


def slower_products(training: Training, us: float) -> None:
    """From the middle on; a step has some 8 ms of them."""
    if training.steps_done >= (training.steps - 1) // 2:
        training.pace = 1 + us / 8_000


def recomputed(training: Training, us: float) -> None:
    began = training.now - AHEAD_US
    for _ in range(4):
        training.work(GEMM, us / 4, op="aten::linear")
    training.job.op(f"{ENGINE}: GeluBackward0", began - 2, training.now - AHEAD_US - began)


def padded(training: Training, us: float) -> None:
    """A quarter of the positions holds something."""
    lengths = [64, *[13] * 10, *[14] * 5]
    pad = {"Input Dims": [[[length, 1024] for length in lengths], [], []]}
    training.job.op("aten::pad_sequence", training.now - AHEAD_US - 20, 10, **pad)
    rows = {"Input Dims": [[1024], [16 * 64, 1024], [1024, 1024]], "Input type": ["c10::BFloat16"] * 3}
    for _ in range(4):
        training.work(GEMM, us / 4, op="aten::addmm", inputs=rows)


ENGINE = "autograd::engine::evaluate_function"
PLANTS: dict[str, Callable[[Training, float], None]] = {
    "anomaly_mode": checked_gradients,
    "cat_storms": kernels(NATIVE + "CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)", 12, "aten::cat"),
    "clock_drop": slower_products,
    "communication_heavy": half_covered,
    "data_loading": data_loading,
    "debug_environment": blocking_launches,
    "dense_embedding_gradients": kernels(
        NATIVE + "compute_grad_weight<float, long>(long*)", 4, "aten::embedding_dense_backward"
    ),
    "elementwise_chains": kernels(ELEMENTWISE, 40, "aten::add"),
    "exposed_communication": exposed(3),
    "float64_leftovers": doubles,
    "fp32_gemm_without_tf32": kernels("ampere_sgemm_128x64_nn", 5, "aten::mm"),
    "garbage_collection": collects,
    "graph_breaks": breaks,
    "host_synchronization": host_synchronization,
    "host_wait": host_wait,
    "index_atomics": kernels(NATIVE + "indexing_backward_kernel<float, 4>(long const*)", 4, "aten::index_put_"),
    "launch_bound": launch_bound,
    "layout_conversions": kernels(
        "void cudnn::ops::nchwToNhwcKernel<float, float>(float)", 10, "aten::cudnn_convolution"
    ),
    "low_gpu_use": no_gpu_work,
    "low_occupancy": kernels("triton_red_fused_5", 6, **{"blocks per SM": 0.2}),
    "many_embeddings": many_tables,
    "memory_fragmentation": asks_the_driver,
    "misaligned_gemm": kernels(
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>", 5, "aten::mm"
    ),
    "padding_waste": padded,
    "pageable_copies": pageable,
    "recomputation": recomputed,
    "recompiles": compiles,
    "sync_batch_norm": batch_norms,
    "unbucketed_collectives": exposed(100, **{"In msg nelems": 512}),
    "unfused_optimizer": unfused,
    "written_out_attention": attention,
    "zero_grad_fills": kernels(NATIVE + "vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)", 60),
}
SIZES_US = {
    # what a cause's own threshold asks for
    "clock_drop": (1_600, 2_500, 4_000),
    "communication_heavy": (1_500, 2_500, 4_000),
    "debug_environment": (6_000, 9_000, 12_000),
    "elementwise_chains": (2_500, 3_500, 5_000),
    "garbage_collection": (150, 400, 800),
    "graph_breaks": (300, 600, 900),
    "host_wait": (1_500, 4_000, 8_000),
    "launch_bound": (6_000, 9_000, 14_000),
    "layout_conversions": (1_500, 2_500, 4_000),
    "low_gpu_use": (13_000, 16_000, 25_000),
    "low_occupancy": (3_500, 5_000, 8_000),
    "memory_fragmentation": (200, 500, 800),
    "recompiles": (200, 500, 800),
}
USUAL_SIZES_US = (700, 1_500, 3_000)
CASES = [(rule, us, seed) for rule in PLANTS for us in SIZES_US.get(rule, USUAL_SIZES_US) for seed in (1, 2)]


def planted(rule: str, us: float, seed: int) -> list[RankTrace]:
    training = Training(seed=seed, steps=3 + seed)
    return [training.run(lambda one: PLANTS[rule](one, us)).read()]


def healthy(seed: int) -> list[RankTrace]:
    """On one of two GPUs, of three to eight steps."""
    of_volta = seed % 2 == 1
    training = Training(
        seed=seed,
        device=V100 if of_volta else A100,
        steps=3 + seed % 6,
        **({"gemm": INTO_VOLTA} if of_volta else {}),
    )
    return [training.run().read()]
