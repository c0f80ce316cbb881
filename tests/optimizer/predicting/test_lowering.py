"""Real lowerings for a GPU that is not there, of models whose kernels, bytes and FLOPs a person worked out."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

import kernels
from kernels.aot.devices import H100
from optimizer.errors import FuseworksError
from optimizer.predicting.document import ExternCall, Lowering
from optimizer.predicting.formula import EXTERN_SHARE, LAUNCH_GAP_US, SHORTEST_US
from tests.optimizer.predicting import models
from tests.optimizer.predicting.models import BATCH, WIDTH


def only_call(found: Lowering) -> ExternCall:
    (call,) = found.extern_calls
    return call


@pytest.fixture(scope="module")
def residual(tmp_path_factory: pytest.TempPathFactory) -> Lowering:
    path = tmp_path_factory.mktemp("residual") / "model.pt2"
    models.save(models.Residual().bfloat16(), (torch.randn(8, WIDTH, dtype=torch.bfloat16),), path)
    return models.lowered(path, models.workload(("bfloat16", ["batch", WIDTH])))


def test_gelu_sum_and_norm_become_one_kernel_beside_the_product(residual):
    (kernel,) = residual.kernels
    assert only_call(residual).name == "aten.addmm.out"
    assert residual.kernels_launched == 2
    assert {"gelu", "add", "layer_norm"} <= {node.node for node in kernel.source_nodes}
    line = inspect.getsourcelines(models.Residual.forward)[1] + 1
    assert {node.source for node in kernel.source_nodes} == {f"models.py:{line}"}


def test_a_kernel_is_told_with_all_that_the_compiler_said(residual):
    (kernel,) = residual.kernels
    assert kernel.origin == "inductor" and kernel.name.startswith("triton_per_fused_")
    assert f"def {kernel.name}(" in kernel.triton_source
    assert 16 <= kernel.registers <= 255 and kernel.spills == 0
    assert 0 < kernel.occupancy <= 1 and kernel.shared_bytes <= kernel.shared_limit_bytes == 232_448
    assert kernel.instructions == sum(kernel.mix.values())
    assert kernel.configurations >= 1 and "XBLOCK=" in kernel.configuration


def test_sizes_are_the_workloads_and_not_those_of_the_export(residual):
    # bfloat16: x and the product in, the result out, the norm's two parameters
    assert residual.kernels[0].bytes == 2 * (3 * BATCH * WIDTH + 2 * WIDTH)
    call = only_call(residual)
    assert call.shapes[1:3] == [f"bfloat16[{BATCH}, {WIDTH}]", f"bfloat16[{WIDTH}, {WIDTH}]"]
    # x, the weight, the bias (one row, though it is shown to every row) and the product
    assert call.bytes == 2 * (2 * BATCH * WIDTH + WIDTH * WIDTH + WIDTH)
    assert call.flops == 2 * BATCH * WIDTH * WIDTH


def test_the_ends_of_the_prediction_are_the_sums_of_what_is_listed(residual):
    entries = [*residual.kernels, *residual.extern_calls]
    assert residual.predicted_ms[0] == pytest.approx(sum(entry.bound_us for entry in entries) / 1e3)
    assert residual.predicted_ms[1] == pytest.approx(sum(entry.upper_us for entry in entries) / 1e3)
    assert residual.bytes_moved == sum(entry.bytes for entry in entries)
    call = only_call(residual)
    assert call.bound_us == pytest.approx(1e6 * call.bytes / H100.memory_bytes_per_s)
    assert call.upper_us == pytest.approx(LAUNCH_GAP_US + max(SHORTEST_US, call.bound_us / EXTERN_SHARE))


def test_attention_is_the_one_library_call_that_cuda_makes_of_it(tmp_path):
    shape = (8, 4, 128, 64)
    arguments = tuple(torch.randn(shape, dtype=torch.bfloat16) for _ in range(3))
    path = models.save(models.Attention(), arguments, tmp_path / "model.pt2")
    found = models.lowered(path, models.workload(*[("bfloat16", ["batch", *shape[1:]])] * 3))
    call = only_call(found)
    assert call.name == "aten._scaled_dot_product_flash_attention.default"
    # two products of 128 × 128 × 64 in each of 4 heads; that half of it is masked is not taken off
    assert call.flops == 2 * 2 * BATCH * 4 * 128 * 128 * 64


def test_a_gather_reads_its_rows_and_not_the_table_and_parts_under_masks_share_the_loop(tmp_path):
    path = models.save(models.Lookups(), (torch.zeros(8, 2, dtype=torch.int64),), tmp_path / "model.pt2")
    found = models.lowered(path, models.workload(("int64", ["batch", 2])))
    (kernel,) = found.kernels
    out = BATCH * 32 * 4
    # each half of the result is a gathered row of 16: at most as much in as out, of the small table all 5 rows
    assert out + 5 * 16 * 4 <= kernel.bytes - BATCH * 2 * 8 <= 2 * out
    assert not found.extern_calls


def test_an_embedding_bag_reads_a_row_for_each_index(tmp_path):
    path = models.save(models.Summed(), (torch.zeros(8, 3, dtype=torch.int64),), tmp_path / "model.pt2")
    found = models.lowered(path, models.workload(("int64", ["batch", 3])))
    (call,) = [call for call in found.extern_calls if "embedding_bag" in call.name]
    # 3 rows of 16 floats for each of the batch, well below the table's 640,000 bytes
    rows = BATCH * 3 * 16 * 4
    assert rows < call.bytes < rows + 100_000


def test_an_operation_of_ours_is_its_own_kernel_with_the_bytes_of_its_cost_model(tmp_path):
    kernels.load()
    arguments = tuple(torch.randn(8, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    path = models.save(models.Fused().bfloat16(), arguments, tmp_path / "model.pt2")
    found = models.lowered(path, models.workload(*[("bfloat16", ["batch", WIDTH])] * 2))
    (kernel,) = found.kernels
    assert (kernel.name, kernel.origin, kernel.launches) == ("fuseworks.add_rms_norm", "fuseworks", 1)
    # two summands in, the sum and its norm out, and the weight
    assert kernel.bytes == 2 * (4 * BATCH * WIDTH + WIDTH)
    assert "def _kernel(" in kernel.triton_source and kernel.registers > 0
    assert [node.node for node in kernel.source_nodes] == ["add_rms_norm"]
    assert not found.extern_calls and found.kernels_launched == 1


def test_the_same_model_for_another_target_is_another_machine_code(tmp_path, residual):
    path = models.save(models.Residual().bfloat16(), (torch.randn(8, WIDTH, dtype=torch.bfloat16),), tmp_path / "m.pt2")
    found = models.lowered(path, models.workload(("bfloat16", ["batch", WIDTH])), target="cuda:sm_80")
    assert found.kernels[0].shared_limit_bytes == 166_912
    assert found.kernels[0].instructions != residual.kernels[0].instructions
    assert found.predicted_ms[0] > residual.predicted_ms[0]  # less bandwidth


def test_a_size_that_depends_on_values_is_refused_by_name(tmp_path: Path):
    with torch.no_grad():
        exported = torch.export.export(models.DataDependent(), (torch.randn(8),))
    torch.export.save(exported, tmp_path / "model.pt2")
    with pytest.raises(FuseworksError) as refused:
        models.lowered(tmp_path / "model.pt2", models.workload(("float32", [8])))
    assert refused.value.id == "predicting:user:data-dependent"
    line = inspect.getsourcelines(models.DataDependent.forward)[1] + 1
    assert refused.value.place == f"models.py:{line}"
