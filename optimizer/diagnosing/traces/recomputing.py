"""What backward computes a second time: operations of the forward pass within a node of the autograd engine.

`torch.utils.checkpoint` runs them again there, by either of its two ways. Silent for graphs that a compiler made: it
recomputes within its kernels. Only operations count that no formula of a gradient calls.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from optimizer.diagnosing.traces.columns import Activity
from optimizer.diagnosing.traces.host import Nesting
from optimizer.diagnosing.traces.kernel_kinds import kind_of
from optimizer.diagnosing.traces.recording import Recording

IN_BACKWARD = "autograd::engine::evaluate_function"
FORWARD = frozenset(
    f"aten::{name}"
    for name in (
        "linear", "conv1d", "conv2d", "conv3d", "layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm",
        "gelu", "relu", "relu_", "silu", "silu_", "softmax", "log_softmax", "dropout", "embedding", "embedding_bag",
        "scaled_dot_product_attention", "max_pool2d", "avg_pool2d", "cross_entropy_loss",
    )
)  # fmt: skip
MOST_NAMES = 50
FREE, WITHIN, AGAIN = 0, 1, 2


@dataclass
class Recomputed:
    """`ms`: of kernels, by their kind; `calls`: of the operations."""

    ms: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)


def recomputed(recording: Recording, nesting: Nesting, launch: np.ndarray, launchers: list[int]) -> Recomputed:
    """`launchers`: the operation behind each GPU event whose launch is known, in their order."""
    texts, operations = recording.names.texts, recording.operations
    forward = np.array([text in FORWARD for text in texts])
    engine = np.array([text.startswith(IN_BACKWARD) for text in texts])
    names = operations.names()
    if not (engine[names].any() and forward[names].any()):
        return Recomputed()
    ordered = names[nesting.order].tolist()
    again, calls = np.zeros(len(ordered), bool), Counter[str]()
    states = bytearray(len(ordered))
    is_forward, is_engine = forward.tolist(), engine.tolist()
    for at, (name, above) in enumerate(zip(ordered, nesting.parent, strict=True)):
        state = states[above] if above >= 0 else FREE
        if state == WITHIN and is_forward[name]:
            state = AGAIN
            calls[texts[name]] += 1
        elif state == FREE and is_engine[name]:
            state = WITHIN
        states[at] = state
    again[nesting.order] = np.frombuffer(states, np.uint8) == AGAIN
    return Recomputed(_kernels_ms(recording, launch, launchers, again), dict(calls.most_common(MOST_NAMES)))


def _kernels_ms(recording: Recording, launch: np.ndarray, launchers: list[int], again: np.ndarray) -> dict[str, float]:
    gpu = recording.gpu
    known = launch >= 0
    owners = np.array(launchers, np.int64)
    counted = (owners >= 0) & again[owners] & (gpu.activities()[known] == Activity.KERNEL)
    ms: dict[str, float] = defaultdict(float)
    for name, us in zip(gpu.names()[known][counted].tolist(), gpu.durations()[known][counted].tolist(), strict=True):
        ms[kind_of(recording.names.texts[name])] += us / 1000
    return dict(ms)
