"""Makes a contender of a training step: the user's own module, or the captured graph as the passes left it."""

from __future__ import annotations

from typing import Any

import torch

from optimizer.compiling.base import Context
from optimizer.compiling.step.contender import StepContender
from optimizer.compiling.step.runtime import Step, design_of, load_graph


def as_uploaded(context: Context) -> StepContender:
    """The user's module and loss, and the optimizer as PyTorch applies it by default. Raises FuseworksError."""
    from optimizer.capturing.torch_module import load_module
    from optimizer.capturing.torch_step import step_module

    assert context.upload is not None and context.upload_format is not None
    _with_gradients()
    user = load_module(context.upload, context.upload_format, context.scratch, context.seed, context.weights)
    module = step_module(user, context.workload)
    return StepContender(Step(module, design_of(context.model)), context.workload, device=context.device)


def as_graph(context: Context, **how: Any) -> StepContender:
    """`how`: as `Step` has it."""
    _with_gradients()
    step = Step(load_graph(context.model), design_of(context.model), **how)
    return StepContender(step, context.workload, device=context.device)


def _with_gradients() -> None:
    """A child that loads contenders has switched them off for good."""
    torch.set_grad_enabled(True)
