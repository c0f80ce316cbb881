"""How people write what each kernel computes, and what only looks like it: one file for each kernel that matches.

A file of the kernel's name holds a `CORPUS`. Every spelling must become the kernel's operation when the whole library
looks at it; no near miss may. Functions take the inputs in order; `inputs` makes them for a batch size and a dtype.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Inputs = Callable[[int, torch.dtype], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Corpus:
    inputs: Inputs
    batched: tuple[int, ...]
    """Which inputs have the batch, which is dynamic, as their first dimension."""
    spellings: Mapping[str, Callable[..., Any]]
    refused: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Near misses that the kernel must list, by a part of the reason."""
    passed_over: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """What must stay as it is, without a word."""
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)
    tolerance: float = 1e-5
    tolerance_bfloat16: float = 6e-2


def corpus_of(name: str) -> Corpus:
    found = importlib.import_module(f"{__name__}.{name}").CORPUS
    assert isinstance(found, Corpus)
    return found
