"""Rewrites of ONNX graphs, with a registry of their own: their graphs are onnx-ir's, not torch's."""

from optimizer.optimizing.onnx_passes.base import ONNX_PASSES, OnnxPass, register_onnx_pass, rewrite_onnx

__all__ = ["ONNX_PASSES", "OnnxPass", "register_onnx_pass", "rewrite_onnx"]
