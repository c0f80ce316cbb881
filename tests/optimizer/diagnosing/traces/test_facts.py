"""Facts of traces made by hand, each worked out beside it."""

from __future__ import annotations

import json

import pytest

from optimizer.diagnosing.traces.facts import facts
from optimizer.diagnosing.traces.kernel_kinds import kind_of, marks_of
from optimizer.diagnosing.traces.rows import copy_kind
from tests.optimizer.diagnosing.traces.building import Building

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def two_steps() -> Building:
    """Two steps of 500 us. On the GPU, from 100 to 1000:

    gemm 100-200, add 205-210, all-reduce 200-300 (its 5 us covered by the add), gemm 300-400, nothing 400-900,
    all-reduce 900-1000 with a gemm 950-980 beside it.
    """
    job = Building(rank=0, world_size=2)
    job.step(1, 0, 500)
    job.step(2, 500, 500)
    job.kernel(GEMM, 100, 100)
    job.kernel(NCCL, 200, 100, stream=20)
    job.kernel(ADD, 205, 5)
    job.kernel(GEMM, 300, 100)
    job.kernel(NCCL, 900, 100, stream=20)
    job.kernel(GEMM, 950, 30)
    return job


def test_the_timeline_of_two_steps() -> None:
    found = facts([two_steps().read()])
    assert (found["steps"], found["kernels"], found["step_ms"]) == (2, 6, 0.5)
    assert found["span_ms"] == 0.9
    assert found["gpu_busy_share"] == pytest.approx(400 / 900, abs=1e-6)
    assert found["gpu_idle_share"] == pytest.approx(500 / 900, abs=1e-6)
    assert found["kernels_under_10us_share"] == pytest.approx(1 / 6, abs=1e-6)


def test_exposed_communication_is_what_no_other_kernel_covers() -> None:
    found = facts([two_steps().read()])
    # 200 us of communication, 5 + 30 us of them covered
    assert found["comm_exposed_share"] == pytest.approx(165 / 200)
    assert found["comm_span_share"] == pytest.approx(165 / 900, abs=1e-6)


def test_a_copy_beside_a_collective_does_not_cover_it() -> None:
    job = Building()
    job.kernel(NCCL, 100, 100, stream=20)
    job.copy("HtoD (Pinned -> Device)", 100, 100, stream=30)
    assert facts([job.read()])["comm_exposed_share"] == 1


def test_classes_are_shares_of_the_summed_kernel_time() -> None:
    found = facts([two_steps().read()])
    whole = 100 + 100 + 5 + 100 + 100 + 30
    assert found["kernel_ms"] == whole / 1000
    assert found["comm_kernel_share"] == pytest.approx(200 / whole, abs=1e-6)
    assert found["gemm_share"] == found["tensor_core_share"] == pytest.approx(230 / whole, abs=1e-6)
    assert found["kernel_kind_share"]["elementwise"] == pytest.approx(5 / whole, abs=1e-6)
    assert sum(found["kernel_kind_share"].values()) == pytest.approx(1, abs=1e-5)


def test_ten_microseconds_are_not_under_ten() -> None:
    job = Building()
    for at, duration in enumerate((9.999, 10, 10.001)):
        job.kernel(ADD, 100 + 50 * at, duration)
    assert facts([job.read()])["kernels_under_10us_share"] == pytest.approx(1 / 3, abs=1e-6)


def test_a_step_that_two_threads_annotate_is_one_step() -> None:
    job = two_steps()
    job.add("user_annotation", "ProfilerStep#2", 500, 480, tid=101)
    assert facts([job.read()])["steps"] == 2


def test_operations_are_counted_for_each_step() -> None:
    job = two_steps()
    for at in range(5):
        job.op("aten::mm", 10 + 20 * at, 15)
    job.op("aten::item", 700, 1)
    assert facts([job.read()])["ops_per_step"] == {"aten::mm": 2.5, "aten::item": 0.5}


def test_the_data_loader_is_set_against_the_steps() -> None:
    job = two_steps()
    job.add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 60)
    job.add("python_function", "torch/utils/data/dataloader.py(633): DataLoader.__next__", 20, 70)  # 20 us more
    assert facts([job.read()])["dataloader_share"] == 80 / 1000


def test_annotations_of_the_gpu_are_no_work_of_the_gpu() -> None:
    job = two_steps()
    job.add("gpu_user_annotation", "nccl:all_reduce", 0, 2000, tid=20, stream=20)
    assert facts([job.read()])["span_ms"] == 0.9


def test_copies_are_told_apart_by_direction_and_memory() -> None:
    job = two_steps()
    job.copy("HtoD (Pageable -> Device)", 410, 5, size=100)
    job.copy("HtoD (Pinned -> Device)", 420, 5, size=50)
    job.copy("DtoH (Device -> Pageable)", 430, 5, size=7)
    job.copy("DtoD (Device -> Device)", 440, 5)
    found = facts([job.read()])
    assert found["memcpy_by_kind"] == {"dtod": 1, "dtoh_pageable": 1, "htod_pageable": 1, "htod_pinned": 1}
    assert (found["memcpy"], found["memcpy_pageable"], found["memcpy_to_pageable"]) == (4, 1, 1)
    assert found["memcpy_pageable_bytes"] == 107


def test_figures_of_several_ranks_are_added_before_they_are_divided() -> None:
    other = Building(rank=1)
    other.step(1, 0, 100)
    other.kernel(GEMM, 100, 100)  # 100 us, always busy
    found = facts([two_steps().read(), other.read()])
    assert (found["ranks"], found["devices"], found["kernels"], found["steps"]) == (2, 2, 7, 2)
    assert found["gpu_busy_share"] == 0.5  # (400 + 100) / (900 + 100)
    assert found["world_size"] == 2


def test_two_gpus_of_one_process_are_two_devices() -> None:
    job = two_steps()
    job.kernel(GEMM, 500, 10, device=1)
    assert facts([job.read()])["devices"] == 2


def test_without_a_gpu_shares_of_it_are_not_told() -> None:
    job = Building()
    job.op("aten::mm", 0, 10)
    found = facts([job.read()])
    assert (found["kernels"], found["devices"], found["memcpy"]) == (0, 0, 0)
    for name in ("gpu_busy_share", "kernels_under_10us_share", "comm_exposed_share", "tensor_core_share"):
        assert found[name] is None, name
    assert found["span_ms"] == 0.01


@pytest.mark.parametrize(
    ("adds", "also", "fused"),
    [(0, None, None), (101, None, False), (100, None, None), (3, "aten::_foreach_add_", True), (0, "FusedAdam", True)],
)
def test_whether_the_optimizer_is_fused(adds: int, also: str | None, fused: bool | None) -> None:
    job = Building()
    job.step(1, 0, 1000)
    job.kernel(GEMM, 100, 10)
    for at in range(adds):
        job.op("aten::add_", at, 0.5)
    if also:
        job.op(also, 900, 5)
    assert facts([job.read()])["optimizer_fused"] is fused


def test_recompilations_are_counted_by_the_ids_of_regions() -> None:
    job = two_steps()
    for at, name in enumerate(("0/0", "0/0", "0/1", "0/2", "1/0")):
        job.op(f"Torch-Compiled Region: {name}", 10 * at, 5)
    assert facts([job.read()])["recompiles"] == 2


def test_the_facts_are_plain_json() -> None:
    found = facts([two_steps().read()])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (GEMM, "gemm"), (ADD, "elementwise"), (NCCL, "communication"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)", "cat"),
        ("void cudnn::ops::nchwToNhwcKernel<float, float>(float)", "layout"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "convolution"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float>(float*)", "softmax"),
        ("void split_embedding_codegen_forward_unweighted_kernel<float>(float)", "embedding"),
        ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float> >(int)", "optimizer"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128> >(Flash_fwd_params)", "attention"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)", "fill"),
        ("triton_poi_fused_add_relu_0", "compiled"),
        ("Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1", "gemm"),
        ("my_own_kernel", "other"),
    ],
)  # fmt: skip
def test_kernels_are_sorted_by_their_names(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("volta_sgemm_128x64_nn", {"gemm", "fp32_simt"}),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", {"gemm", "tensor_core"}),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>", {"gemm", "tensor_core"}),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", {"tensor_core"}),
        ("ampere_dgemm_64x64_nn", {"gemm", "double"}),
        ("void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<double> >(int)", {"double"}),
        ("void at::native::nan_to_num_kernel_cuda(at::TensorIteratorBase&, c10::optional<double>)", set()),
    ],
)
def test_properties_are_told_by_what_stands_in_a_name(name: str, marks: set[str]) -> None:
    assert marks_of(name) == marks


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD pageable"), ("Memcpy DtoH (Device -> Pinned)", "DtoH pinned"),
        ("Memcpy DtoD (Device -> Device)", "DtoD"), ("Memcpy PtoP (Device -> Device)", "PtoP"),
        ("CopyDeviceToHost", "DtoH"), ("Something", "other"),
    ],
)  # fmt: skip
def test_copies_are_named_by_direction(name: str, kind: str) -> None:
    assert copy_kind(name) == kind
