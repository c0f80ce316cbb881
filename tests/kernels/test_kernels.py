"""What holds for every kernel: the custom operation, its gradient, fake, cost and registration."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

import kernels
from kernels.spec import Kernel, Sample
from tests.kernels.processes import ROOT

kernels.load()
KERNELS = list(kernels.KERNELS)
by_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)


def small(kernel: Kernel, dtype: torch.dtype) -> list[Sample]:
    return [s for s in kernel.samples(dtype) if s.args[0].numel() < 3000]


def as_leaves(args: tuple[Any, ...]) -> list[Any]:
    return [a.clone().requires_grad_() if isinstance(a, torch.Tensor) else a for a in args]


@by_kernel
def test_the_operation_passes_torchs_own_check(kernel: Kernel) -> None:
    samples = small(kernel, torch.float32)[2:4]
    assert len(samples) == 2, "an empty slice would check nothing"
    for sample in samples:
        torch.library.opcheck(kernel.op, tuple(as_leaves(sample.args)))


@by_kernel
@pytest.mark.parametrize("which", [0, 1], ids=["with parameters", "without"])
def test_the_gradient_equals_finite_differences(kernel: Kernel, which: int) -> None:
    generator = torch.Generator().manual_seed(3)
    sample = kernel.samples(torch.float64)[2:4][which].args
    cut = [torch.randn(a[..., :7].shape[-a.dim() :], generator=generator, dtype=a.dtype) for a in _tensors(sample)]
    tensors = [t[:2].requires_grad_() if t.dim() > 1 else t.requires_grad_() for t in map(torch.clone, cut)]
    args = iter(tensors)
    given = [next(args) if isinstance(a, torch.Tensor) else a for a in sample]
    assert torch.autograd.gradcheck(lambda *_: kernel.op(*given), tuple(tensors), eps=1e-6, atol=1e-6)


@by_kernel
def test_the_gradient_equals_autograd_through_the_reference(kernel: Kernel) -> None:
    for sample in small(kernel, torch.float32) + kernel.edges(torch.float32)[2:3]:
        ours, theirs = as_leaves(sample.args), as_leaves(sample.args)
        for args, call in ((ours, kernel.op), (theirs, kernel.reference)):
            sum(out.sin().sum() for out in call(*args)).backward()
        for a, b in zip(ours, theirs, strict=True):
            if isinstance(a, torch.Tensor):
                torch.testing.assert_close(a.grad, b.grad, rtol=2e-4, atol=2e-5)


@by_kernel
def test_a_gradient_of_one_output_alone_works(kernel: Kernel) -> None:
    for output in (0, 1):
        args, reference = (as_leaves(small(kernel, torch.float32)[2].args) for _ in range(2))
        kernel.op(*args)[output].sin().sum().backward()
        kernel.reference(*reference)[output].sin().sum().backward()
        torch.testing.assert_close(args[0].grad, reference[0].grad, rtol=1e-4, atol=1e-5)


@by_kernel
def test_the_fake_has_the_references_shapes_dtypes_and_strides(kernel: Kernel) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        for sample in small(kernel, dtype):
            for fake, real in zip(kernel.fake(*sample.args), kernel.op(*sample.args), strict=True):
                assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())


@by_kernel
def test_float64_inputs_are_computed_in_float64(kernel: Kernel) -> None:
    sample = kernel.samples(torch.float64)[2]
    narrow = kernel.op(*[a.float() if isinstance(a, torch.Tensor) else a for a in sample.args])
    exact = kernel.op(*sample.args)
    difference = (exact[0] - narrow[0].double()).abs().max().item()
    assert exact[0].dtype == torch.float64
    assert 1e-9 < difference < 1e-5


@by_kernel
def test_it_supports_its_samples_and_says_what_it_does_not(kernel: Kernel) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for sample in kernel.samples(dtype) + kernel.edges(dtype):
            assert kernel.supports(*sample.args) is None
    x, residual, *rest = kernel.samples(torch.float32)[2].args
    assert "different shapes" in (kernel.supports(x, residual[:1], *rest) or "")
    assert "different dtypes" in (kernel.supports(x, residual.double(), *rest) or "")
    assert "not a floating point" in (kernel.supports(x.long(), residual.long(), *rest) or "")
    assert "is not the row's" in (kernel.supports(x, residual, rest[0][:-1], *rest[1:]) or "")


@by_kernel
def test_the_cost_counts_two_reads_and_two_writes(kernel: Kernel) -> None:
    sample = kernel.samples(torch.float32)[2].args
    parameters = sum(a.numel() for a in sample[2:] if isinstance(a, torch.Tensor))
    cost = kernel.cost(*sample)
    assert cost.bytes == 4 * (4 * 5 * 123 + parameters)
    assert cost.flops >= 5 * 5 * 123


@by_kernel
def test_the_formula_is_written_down(kernel: Kernel) -> None:
    assert "total  = x + residual" in kernel.formula
    assert "arXiv" in kernel.formula


@by_kernel
def test_the_manifest_is_plain_data(kernel: Kernel) -> None:
    manifest = json.loads(json.dumps(kernel.manifest()))
    assert manifest["operation"] == f"fuseworks::{kernel.name}"
    assert manifest["dtypes"] == ["bfloat16", "float16", "float32"]
    assert manifest["passes"] == ["fuse_add_norm"]


def test_importing_the_package_or_loading_the_kernels_needs_no_triton() -> None:
    code = (
        "import sys; import kernels; assert 'torch' not in sys.modules; assert kernels.__version__ == '0.0.0'\n"
        "sys.modules['triton'] = None\n"  # any import of triton raises from here on
        "kernels.load(); import torch\n"
        "y, s = torch.ops.fuseworks.add_rms_norm(torch.ones(2, 4), torch.ones(2, 4), None, 0.0)\n"
        "assert y.tolist() == [[1.0] * 4] * 2 and s.tolist() == [[2.0] * 4] * 2\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_transformers_takes_our_package_for_no_kernels_library() -> None:
    utilities = pytest.importorskip("transformers.utils")
    assert not utilities.is_kernels_available()


def test_rms_norm_by_hand() -> None:
    x, residual = torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, -1.0]])
    normed, total = torch.ops.fuseworks.add_rms_norm(x, residual, torch.tensor([2.0, 1.0]), 0.0)
    assert total.tolist() == [[3.0, 4.0]]
    torch.testing.assert_close(normed, torch.tensor([[6.0, 4.0]]) / 12.5**0.5)  # mean(9, 16) = 12.5


def test_layer_norm_by_hand() -> None:
    x, residual = torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, 2.0]])
    weight, bias = torch.tensor([2.0, 1.0]), torch.tensor([0.5, 0.0])
    normed, total = torch.ops.fuseworks.add_layer_norm(x, residual, weight, bias, 0.0)
    assert total.tolist() == [[3.0, 7.0]]
    torch.testing.assert_close(normed, torch.tensor([[-1.5, 1.0]]))  # mean 5, deviation 2


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    return [a for a in args if isinstance(a, torch.Tensor)]
