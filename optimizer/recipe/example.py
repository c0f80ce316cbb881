"""The recipe that whoever writes one by hand begins with: in the form of a new recipe, and in docs/recipes.md."""

from __future__ import annotations

EXAMPLE = """\
apiVersion: fuseworks.io/v1
kind: Recipe
metadata:
  name: openvino-split-target-attention
  version: 1.0.0
  title: openvino with split_target_attention
  summary: Rewrites the graph (split_target_attention), then runs it on openvino.
  tags: [ranking, cpu]
applies_to:
  mode: inference
  target: {kind: cpu}
  graph:
    all:
      - {pass: split_target_attention, min_matches: 1}
steps:
  - runtime: {allocator: glibc-no-trim, threads: 2}
  - pass: split_target_attention
  - backend: openvino
accept: {max_error_ratio: 3.0, min_speedup: 1.0}
"""
