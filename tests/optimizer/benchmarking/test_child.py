from __future__ import annotations

import mmap
import sys
import time

import numpy as np
import torch

from optimizer.benchmarking import gauges
from tests.optimizer.verifying.local import LocalChild, TorchContender


def staged(child: LocalChild, calls: int, warm: int = 0) -> None:
    arrays = [np.full(3, i, dtype=np.float32) for i in range(calls + warm)]
    child.call("benchmarking.stage", arrays, timeout_s=5, calls=calls, warm=warm)


def test_go_times_each_call_and_leaves_out_the_warm_ones() -> None:
    naps = iter([0.02, 0.001, 0.003, 0.001])  # the first is the warm call, run while staging
    seen: list[float] = []

    def work(x: torch.Tensor) -> torch.Tensor:
        seen.append(float(x[0]))
        time.sleep(next(naps))
        return x + 1

    child = LocalChild(TorchContender(work))
    staged(child, 3, warm=1)
    reply = child.call("benchmarking.go", timeout_s=5)
    assert seen == [3.0, 0.0, 1.0, 2.0]
    [times] = reply.arrays
    assert times.dtype == np.int64 and times.shape == (3,)
    assert times.sum() == reply.fields["total_ns"]
    assert times[1] > 2_900_000 and times[0] > 900_000 and times.sum() < 20_000_000


def test_outputs_are_kept_for_every_call_until_the_next_stage() -> None:
    child = LocalChild(TorchContender(lambda x: x + 1))
    staged(child, 4)
    child.call("benchmarking.go", timeout_s=5)
    reply = child.call("benchmarking.outputs", timeout_s=5, indices=[2, 0])
    assert reply.fields["outputs_per_set"] == 1
    assert [a[0] for a in reply.arrays] == [3.0, 1.0]
    staged(child, 1)
    assert child.session.state["answers"] is None


def test_page_faults_of_a_burst_are_counted() -> None:
    kept = []

    def touch(x: torch.Tensor) -> torch.Tensor:
        kept.append(mmap.mmap(-1, 16 << 20))
        kept[-1].write(b"x" * (16 << 20))  # new pages, whatever malloc has kept from earlier tests
        return x

    child = LocalChild(TorchContender(touch))
    staged(child, 2)
    faulty = child.call("benchmarking.go", timeout_s=5).fields["page_faults"]
    calm = LocalChild(TorchContender(lambda x: x))
    staged(calm, 2)
    assert faulty > calm.call("benchmarking.go", timeout_s=5).fields["page_faults"]


def test_gauges_read_the_kernel() -> None:
    rss, peak = gauges.resident_bytes()
    assert 10 << 20 < rss <= peak
    wait = gauges.run_queue_wait_ns()
    assert wait is None or wait >= 0
    assert 0 < gauges.clock_cost_ns() < 1_000_000


def test_memory_knows_no_allocator_on_a_cpu() -> None:
    fields = LocalChild(TorchContender(lambda x: x)).call("benchmarking.memory", timeout_s=5).fields
    assert fields["allocator_peak_bytes"] is None
    assert fields["peak_rss_bytes"] >= fields["rss_bytes"]


def test_the_coordinators_side_never_imports_torch() -> None:
    import subprocess

    modules = "inputs verifying.verify benchmarking.judge benchmarking.screen benchmarking.summary"
    code = (
        "; ".join(f"import optimizer.{m}" for m in modules.split()) + "; import sys; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
