"""Occupancy against the makers' formulas, worked out by hand, and the roofline on round figures."""

from __future__ import annotations

import pytest

from kernels.aot.devices import A100, B200, DEVICES, H100, MI300X, UnknownTarget, device_of
from kernels.aot.occupancy import Occupancy, occupancy
from kernels.aot.roofline import bound


def test_few_registers_and_no_shared_memory_fill_the_multiprocessor():
    # 32 registers × 32 lanes = 1024 a warp; 65536 / 1024 = 64 warps, which is all that there are: 16 blocks of 4
    assert occupancy(H100, registers=32, shared_bytes=0, warps=4) == Occupancy(16, 1.0, "threads")


def test_registers_are_given_to_a_warp_in_units_of_256():
    # 65 × 32 = 2080, rounded to 2304; 65536 / 2304 = 28.4 → 28 warps → 7 blocks of 4 → 28 of 64 warps
    assert occupancy(H100, registers=65, shared_bytes=0, warps=4) == Occupancy(7, 28 / 64, "registers")


def test_warps_come_in_fours_since_registers_lie_in_quarters():
    # 72 × 32 = 2304 → 28 warps; blocks of 8 warps: 3 (24 warps), not 3.5
    assert occupancy(A100, registers=72, shared_bytes=0, warps=8) == Occupancy(3, 24 / 64, "registers")
    # 255 registers: 8160 → 8192 a warp → 8 warps; a block of 16 does not fit, though one of 8 does
    assert occupancy(A100, registers=255, shared_bytes=0, warps=16).blocks_per_sm == 0
    assert occupancy(A100, registers=255, shared_bytes=0, warps=8).blocks_per_sm == 1


def test_each_block_pays_a_kilobyte_of_shared_memory_to_the_system():
    # 228 KiB / (56 + 1) KiB = 4 blocks; without the reserve there would still be 4, with 57 there are 3
    assert occupancy(H100, registers=32, shared_bytes=56 << 10, warps=4) == Occupancy(4, 16 / 64, "shared memory")
    assert occupancy(H100, registers=32, shared_bytes=57 << 10, warps=4).blocks_per_sm == 3
    # the A100 has 164 KiB: 164 / 57 = 2
    assert occupancy(A100, registers=32, shared_bytes=56 << 10, warps=4).blocks_per_sm == 2


def test_small_blocks_are_limited_by_their_number():
    # 32 blocks of one warp: half of the 64 warps
    assert occupancy(B200, registers=32, shared_bytes=0, warps=1) == Occupancy(32, 0.5, "blocks")


@pytest.mark.parametrize(
    ("device", "limit"),
    [(A100, 166_912), (H100, 232_448), (B200, 232_448), (MI300X, 65_536)],
    ids=lambda x: str(x)[:20],
)
def test_a_block_over_the_shared_memory_limit_does_not_launch(device, limit):
    assert occupancy(device, registers=32, shared_bytes=limit, warps=4).blocks_per_sm >= 1
    over = occupancy(device, registers=32, shared_bytes=limit + 1, warps=4)
    assert over == Occupancy(0, 0.0, "shared memory of one block")


def test_a_block_of_too_many_threads_does_not_launch():
    assert occupancy(H100, registers=32, shared_bytes=0, warps=33).limited_by == "threads in one block"
    assert occupancy(MI300X, registers=32, shared_bytes=0, warps=17).limited_by == "threads in one block"


def test_amd_gives_a_lane_its_registers_in_units_of_eight():
    # 512 / 128 = 4 waves in each of 4 SIMDs: 16 waves, 4 blocks of 4; 32 waves are all
    assert occupancy(MI300X, registers=128, shared_bytes=0, warps=4) == Occupancy(4, 0.5, "registers")
    # 129 → 136: 512 / 136 = 3 waves a SIMD → 12 waves → 3 blocks
    assert occupancy(MI300X, registers=129, shared_bytes=0, warps=4).blocks_per_sm == 3
    # few registers: 8 waves a SIMD at most
    assert occupancy(MI300X, registers=8, shared_bytes=0, warps=4) == Occupancy(8, 1.0, "threads")


def test_the_bound_is_the_slower_of_memory_and_arithmetic():
    # 3.352 GB at 3.352 TB/s: 1 ms; 66.9 GFLOP at 66.9 TFLOP/s: 1 ms as well, so a bit more of either decides
    memory = bound(H100, bytes=3_352_000_000, flops=1, dtype="float32", tensor_cores=False)
    assert (memory.us, memory.by) == (pytest.approx(1000.0), "memory")
    compute = bound(H100, bytes=1, flops=133_800_000_000, dtype="float32", tensor_cores=False)
    assert (compute.us, compute.by) == (pytest.approx(2000.0), "compute")


def test_bfloat16_outside_tensor_cores_is_float32_arithmetic():
    on_tensor_cores = bound(A100, bytes=0, flops=312_000_000, dtype="bfloat16", tensor_cores=True)
    elsewhere = bound(A100, bytes=0, flops=312_000_000, dtype="bfloat16", tensor_cores=False)
    assert on_tensor_cores.us == pytest.approx(1.0)
    assert elsewhere.us == pytest.approx(16.0)  # 312 / 19.5


def test_every_device_says_where_its_figures_come_from():
    for device in DEVICES:
        told = " ".join(device.sources)
        assert "limits" in told and "rates" in told and "latency" in told
        assert device_of(device.target) is device


def test_it_names_the_known_targets_for_one_that_it_does_not_know():
    with pytest.raises(UnknownTarget, match=r"cuda:sm_75.*cuda:sm_80, cuda:sm_90, cuda:sm_100, rocm:gfx942"):
        device_of("cuda:sm_75")
