"""What a child says of its GPU before it works on it, and of engines that would compute elsewhere without a word."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from optimizer.compiling import availability
from optimizer.compiling.gpu import refusal
from optimizer.compiling.onnx_cuda import refuse_fallback
from optimizer.compiling.precision import refusal as bfloat16_refusal
from optimizer.errors import FuseworksError


def said(target: str = "cuda:sm_90", built_with: str | None = "12.6", available: bool = True, capability=(9, 0)):
    return refusal(target, built_with=built_with, available=available, capability=capability)


def test_a_gpu_of_the_targets_kind_is_accepted():
    assert said() is None
    assert said("cuda:sm_90a") is None, "the same chip with more instructions"
    assert said("cuda:sm_120", capability=(12, 0)) is None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"built_with": None}, "this torch is built without CUDA: install a torch with CUDA"),
        ({"available": False, "capability": None}, "CUDA does not start in the sandbox: see the child's log"),
        ({"capability": (8, 0)}, "the GPU is sm_80 and the target cuda:sm_90: choose the target cuda:sm_80"),
        ({"target": "cuda:sm_120", "capability": (9, 0)}, "the GPU is sm_90 and the target cuda:sm_120"),
    ],
)
def test_anything_else_is_refused_with_a_remedy(given, reason):
    assert str(said(**given)).startswith(reason)


def test_onnx_runtime_that_fell_back_to_the_cpu_is_refused():
    refuse_fallback(["CUDAExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(FuseworksError) as caught:
        refuse_fallback(["CPUExecutionProvider"])
    assert caught.value.id == "compiling:ours:unavailable"
    assert "it would compute on CPUExecutionProvider" in caught.value.message


@pytest.mark.parametrize("installed", [True, False])
def test_onnx_runtime_is_offered_for_cuda_only_with_its_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
):
    (tmp_path / "capi").mkdir()
    if installed:
        (tmp_path / "capi" / availability.CUDA_PROVIDER).touch()
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(availability.importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(availability, "gpu_unavailable", lambda target: None)
    reason = availability.no_cuda_provider("cuda:sm_90")
    assert reason is None if installed else "pip install onnxruntime-gpu" in str(reason)
    assert availability.no_cuda_provider("cpu") is None
    assert "choose eager" in str(availability.no_cuda_provider("rocm:gfx942"))


@pytest.mark.parametrize(
    ("target", "flags", "refused"),
    [
        ("cpu", ["avx2"], True),
        ("cpu", ["amx_bf16"], False),
        ("cuda:sm_75", ["amx_bf16"], True),
        ("cuda:sm_80", ["avx2"], False),
        ("cuda:sm_90a", [], False),
    ],
)
def test_bfloat16_is_proposed_where_the_target_multiplies_it(target, flags, refused):
    assert (bfloat16_refusal(target, flags) is not None) is refused
