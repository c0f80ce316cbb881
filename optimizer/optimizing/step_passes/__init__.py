"""Passes over training steps, with a registry of their own: they change how a step is done, not its graph."""

from optimizer.optimizing.step_passes.base import STEP_PASSES, StepPass, register_step_pass, rewrite_step

__all__ = ["STEP_PASSES", "StepPass", "register_step_pass", "rewrite_step"]
