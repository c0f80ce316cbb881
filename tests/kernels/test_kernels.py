"""What holds for every kernel: the custom operation, its gradient, fake, support and registration."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import torch

import kernels
from kernels.lowering import is_fused, lower_to_reference
from kernels.spec import Kernel, Launch, Sample, as_tuple
from tests.kernels.processes import ROOT

kernels.load()
KERNELS = list(kernels.KERNELS)
by_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
trained = pytest.mark.parametrize("kernel", [k for k in KERNELS if k.differentiable], ids=lambda k: k.name)


def main_dtype(kernel: Kernel) -> torch.dtype:
    return next(iter(kernel.tolerances))


def small(kernel: Kernel, dtype: torch.dtype) -> list[Sample]:
    return [s for s in kernel.samples(dtype) if _tensors(s.args)[0].numel() < 3000]


def as_leaves(kernel: Kernel, args: tuple[Any, ...]) -> list[Any]:
    names = [argument.name for argument in kernel.op._schema.arguments]
    return [
        a.clone().requires_grad_() if _is_float(a) and name not in kernel.untrained else a
        for name, a in zip(names, args, strict=True)
    ]


@by_kernel
def test_the_operation_passes_torchs_own_check(kernel: Kernel) -> None:
    sample = small(kernel, main_dtype(kernel))[0]
    args = as_leaves(kernel, sample.args) if kernel.differentiable else sample.args
    torch.library.opcheck(kernel.op, tuple(args))


@trained
def test_the_gradient_equals_finite_differences(kernel: Kernel) -> None:
    for sample in small(kernel, torch.float64)[:2]:
        given = as_leaves(kernel, sample.args)
        leaves = tuple(a for a in given if isinstance(a, torch.Tensor) and a.requires_grad)
        assert leaves, "there would be nothing to check"

        def run(*_: torch.Tensor, given: list[Any] = given) -> tuple[torch.Tensor, ...]:
            return tuple(out for out in as_tuple(kernel.op(*given)) if out.is_floating_point())

        assert torch.autograd.gradcheck(run, leaves, eps=1e-6, atol=1e-5, fast_mode=True)


@trained
def test_the_gradient_equals_autograd_through_the_reference(kernel: Kernel) -> None:
    for sample in [*small(kernel, torch.float32), *kernel.edges(torch.float32)[:1]]:
        ours, theirs = as_leaves(kernel, sample.args), as_leaves(kernel, sample.args)
        for args, call in ((ours, kernel.op), (theirs, kernel.reference)):
            floats = [out for out in as_tuple(call(*args)) if out.is_floating_point()]
            sum(out.sin().sum() for out in floats).backward()
        for a, b in zip(ours, theirs, strict=True):
            if isinstance(a, torch.Tensor) and b.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=2e-4, atol=2e-5)


@trained
def test_a_gradient_of_one_output_alone_works(kernel: Kernel) -> None:
    sample = small(kernel, torch.float32)[0]
    count = len(kernel.fake(*sample.args))
    for place in range(count):
        args, reference = (as_leaves(kernel, sample.args) for _ in range(2))
        out = as_tuple(kernel.op(*args))[place]
        if not out.is_floating_point():
            continue
        out.sin().sum().backward()
        as_tuple(kernel.reference(*reference))[place].sin().sum().backward()
        for a, b in zip(args, reference, strict=True):
            if isinstance(b, torch.Tensor) and b.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


@by_kernel
def test_the_fake_has_the_references_shapes_dtypes_and_strides(kernel: Kernel) -> None:
    for dtype in kernel.tolerances:
        for sample in [*small(kernel, dtype), *kernel.edges(dtype)]:
            real = as_tuple(kernel.op(*sample.args))
            for fake, out in zip(kernel.fake(*sample.args), real, strict=True):
                assert (fake.shape, fake.dtype, fake.stride()) == (out.shape, out.dtype, out.stride()), sample.name


@by_kernel
def test_no_output_is_an_input(kernel: Kernel) -> None:
    for sample in small(kernel, main_dtype(kernel)):
        places = {t.untyped_storage().data_ptr() for t in _tensors(sample.args) if t.numel()}
        assert not any(out.untyped_storage().data_ptr() in places for out in as_tuple(kernel.op(*sample.args)))


@pytest.mark.parametrize("kernel", [k for k in KERNELS if torch.float32 in k.tolerances], ids=lambda k: k.name)
def test_float64_inputs_are_computed_in_float64(kernel: Kernel) -> None:
    sample = max(small(kernel, torch.float64), key=lambda s: _tensors(s.args)[0].numel())
    run = kernel.reference if kernel.mutates else kernel.op  # what is written in place is no output
    exact = as_tuple(run(*sample.args))
    narrow = as_tuple(run(*[a.float() if _is_float(a) else a for a in sample.args]))
    pairs = [(wide, near) for wide, near in zip(exact, narrow, strict=True) if wide.is_floating_point()]
    for wide, near in pairs:
        assert wide.dtype == torch.float64
        assert (wide - near.double()).abs().max().item() < 1e-3
    copies = not any(t.absolute or t.relative for t in kernel.tolerances.values())
    widened = all(torch.equal(wide, wide.float().double()) for wide, _ in pairs)
    assert copies or not widened, "computed in float32 and widened"


@by_kernel
def test_it_supports_its_samples_and_says_what_it_does_not(kernel: Kernel) -> None:
    for dtype in kernel.tolerances:
        for sample in [*kernel.samples(dtype), *kernel.edges(dtype), kernel.typical(dtype)]:
            assert kernel.supports(*sample.args, target="cpu") is None, sample.name
    args = kernel.samples(main_dtype(kernel))[0].args
    first = next(i for i, a in enumerate(args) if isinstance(a, torch.Tensor))
    odd = [a.to(torch.complex64) if i == first else a for i, a in enumerate(args)]
    assert "complex64" in (kernel.supports(*odd) or "")


@by_kernel
def test_it_says_which_targets_have_its_triton_code(kernel: Kernel) -> None:
    args = kernel.samples(main_dtype(kernel))[0].args
    assert kernel.supports(*args, target="cuda:sm_90") is None
    assert kernel.supports(*args, target="rocm:gfx942") is None
    assert kernel.supports(*args, target="cuda:sm_70") == f"needs sm_{kernel.capability}, the target is sm_70"
    assert kernel.supports(*args, target="tpu:v5") == "there is no Triton for the target tpu:v5"


@by_kernel
def test_its_launches_on_meta_tensors_name_every_parameter(kernel: Kernel) -> None:
    """What ahead-of-time compilation relies on."""
    for dtype in kernel.tolerances:
        args = kernel.typical(dtype).args
        assert all(t.device.type == "meta" for t in _tensors(args))
        configurations = kernel.configurations(*args)
        assert len({c.name for c in configurations}) == len(configurations) >= 2
        for configuration in configurations:
            launches = kernel.launches(kernel.fake(*args), configuration, *args)
            assert launches
            for launch in launches:
                assert isinstance(launch, Launch)
                names = list(launch.function.__annotations__)  # those with an annotation are the constants
                every = launch.function.__code__.co_varnames[: launch.function.__code__.co_argcount]
                assert set(launch.constants) == set(names)
                assert len(launch.args) + len(launch.constants) == len(every)
                assert list(every[len(launch.args) :]) == names, "constants come last"
                assert all(size > 0 for size in launch.grid)


@by_kernel
def test_lowered_for_a_cpu_nothing_of_it_is_left(kernel: Kernel) -> None:
    class Calls(torch.nn.Module):
        def __init__(self, constants: tuple[Any, ...]) -> None:
            super().__init__()
            self.constants = constants

        def forward(self, *tensors: torch.Tensor) -> Any:
            rest = iter(tensors)
            args = [next(rest).clone() if a is None else a[0] for a in self.constants]
            out = kernel.op(*args)
            return tuple(kernel.mutated(args)) if kernel.mutates else out

    sample = small(kernel, main_dtype(kernel))[0]
    constants = tuple(None if isinstance(a, torch.Tensor) else (a,) for a in sample.args)
    tensors = tuple(_tensors(sample.args))
    with torch.no_grad():
        program = torch.export.export(Calls(constants), tensors)
        assert any(is_fused(n) for n in program.graph.nodes)
        lowered = lower_to_reference(program)
        assert not any(is_fused(n) for n in lowered.graph.nodes)
        got, want = as_tuple(lowered.module()(*tensors)), as_tuple(kernel.reference(*sample.args))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@by_kernel
def test_the_formula_and_its_source_are_written_down(kernel: Kernel) -> None:
    assert re.search(r"^    \S.* = ", kernel.formula, re.MULTILINE), "no formula"
    assert re.search(r"^Sources?: .*\n?.*\b(19|20)\d\d\b|^Source: torch", kernel.formula, re.MULTILINE), "no source"
    assert "Not for: " in kernel.formula


@by_kernel
def test_one_file_of_its_name_holds_it(kernel: Kernel) -> None:
    assert type(kernel).__module__ == f"kernels.ops.{kernel.name}"


@by_kernel
def test_the_manifest_is_plain_data(kernel: Kernel) -> None:
    manifest = json.loads(json.dumps(kernel.manifest()))
    assert manifest["operation"] == f"fuseworks::{kernel.name}"
    assert manifest["dtypes"] == sorted(str(d).removeprefix("torch.") for d in kernel.tolerances)
    assert len(manifest["configurations"]) >= 2
    assert set(manifest) >= {"name", "formula", "dtypes", "targets", "patterns", "configurations"}


def test_the_library_holds_what_ranking_and_transformers_want() -> None:
    assert len(KERNELS) >= 24


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


def _is_float(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.is_floating_point()


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    return [a for a in args if isinstance(a, torch.Tensor)]
