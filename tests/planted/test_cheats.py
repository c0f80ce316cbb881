"""Candidates that do not work but look as if they did: each is refused with a reason that names it.

Here the process is honest, and the model in it is not; processes that cheat are in `test_cheats_in_a_process.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimizer.compiling.torch_contender import TorchContender
from optimizer.errors import FuseworksError
from tests.optimizer.verifying.local import LocalChild
from tests.planted.originals import TOWER
from tests.planted.support import said, verifier_of, verify

MODEL = TOWER.module


def zeros(x: Tensor) -> Tensor:
    return torch.zeros(len(x), 3)


class Cached:
    """`which` of its earlier answers, repeated or cut to the batch; the first call is answered."""

    def __init__(self, which: int) -> None:
        self.which, self.earlier = which, list[Tensor]()

    def __call__(self, x: Tensor) -> Tensor:
        true = MODEL(x)
        self.earlier.append(true)
        old = self.earlier[0] if self.which == 0 else self.earlier[max(0, len(self.earlier) - 2)]
        return torch.from_numpy(np.resize(old.numpy(), tuple(true.shape)))


class Remembering:
    """Looks an answer up by `key(x)`; right the first time."""

    def __init__(self, key: Callable[[Tensor], Any]) -> None:
        self.key, self.known = key, dict[Any, Tensor]()

    def __call__(self, x: Tensor) -> Tensor:
        return self.known.setdefault(self.key(x), MODEL(x))


class Buffers:
    """Answers in `count` buffers in turn: one that is kept longer than `count` calls is lost."""

    def __init__(self, count: int) -> None:
        self.count, self.calls = count, 0
        self.kept: dict[Any, list[Tensor]] = {}

    def __call__(self, x: Tensor) -> Tensor:
        true = MODEL(x)
        buffers = self.kept.setdefault(tuple(true.shape), [torch.empty_like(true) for _ in range(self.count)])
        self.calls += 1
        return buffers[self.calls % self.count].copy_(true)


class View(Buffers):
    """A view of one buffer of the largest batch."""

    def __call__(self, x: Tensor) -> Tensor:
        buffer = self.kept.setdefault("all", [torch.empty(64, 3)])[0]
        return buffer[: len(x)].copy_(MODEL(x))


class Later:
    """Hands over an empty buffer, which a thread fills after the call has returned."""

    def __call__(self, x: Tensor) -> Tensor:
        true = MODEL(x)
        buffer = torch.zeros_like(true)

        def fill() -> None:
            time.sleep(0.02)
            buffer.copy_(true)

        threading.Thread(target=fill, daemon=True).start()
        return buffer


def scribbling(x: Tensor) -> Tensor:
    answer: Tensor = MODEL(x)
    x.mul_(0.5)
    return answer


def view_of_the_input(x: Tensor) -> Tensor:
    return x[:, :3].copy_(MODEL(x))


def drifting() -> Callable[[Tensor], Tensor]:
    """Adds a little more at each call, as a buffer does that nobody resets."""
    state = torch.zeros(())

    def call(x: Tensor) -> Tensor:
        state.add_(1e-3)
        return MODEL(x) + state  # type: ignore[no-any-return]

    return call


class Lazy(torch.Tensor):
    """A tensor that is worked out when somebody reads it, from inputs that it has kept."""

    @staticmethod
    def of(x: Tensor) -> Lazy:
        lazy = torch.zeros(len(x), 3).as_subclass(Lazy)
        lazy.inputs = x.clone()  # type: ignore[attr-defined]
        return lazy

    def detach(self) -> Tensor:
        return MODEL(self.inputs)  # type: ignore[attr-defined, no-any-return]


CHEATS: dict[str, tuple[Callable[[], Any], str]] = {
    "zeros": (lambda: zeros, "it answers zeros"),
    "its first answer for ever": (lambda: Cached(0), "it gives the first call's answer again"),
    "the answer of the call before": (lambda: Cached(-1), "it gives the answer of the call before"),
    "an input handed back": (lambda: lambda x: x[:, :3].clone(), "output 0: error"),
    "one answer for each shape": (lambda: Remembering(lambda x: tuple(x.shape)), "it gives the first call's answer"),
    "one answer for each first row": (
        lambda: Remembering(lambda x: (tuple(x.shape), x[0, 0].item() // 0.5)),
        "output 0: error",
    ),
    "one answer for each place in memory": (
        lambda: Remembering(lambda x: (x.data_ptr(), tuple(x.shape))),
        "other values in the same memory: the answer is not that of the new values",
    ),
    "one buffer": (lambda: Buffers(1), "an answer kept over the next calls: it changed"),
    "three buffers in turn": (lambda: Buffers(3), "an answer kept over the next calls: it changed"),
    "a view of one buffer": (lambda: View(1), "an answer kept over the next calls: it changed"),
    "work left to a thread": (Later, "it answers zeros"),
    "an input overwritten": (lambda: scribbling, "it changes its input x in place; the original does not"),
    "the answer in the input's memory": (lambda: view_of_the_input, "it changes its input x in place"),
    "a state that drifts": (drifting, "output 0: error"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_refused_with_its_reason(name: str) -> None:
    make, reason = CHEATS[name]
    found = verify("TOWER", make())
    assert not found.passed
    assert any(reason in text for text in said(found)), said(found)
    assert all(probe.passed for probe in found.probes if probe.kind == "negative_control")


def test_work_left_to_the_reading_is_refused_as_such() -> None:
    with pytest.raises(FuseworksError) as caught:
        verify("TOWER", Lazy.of)
    assert caught.value.id == "compiling:user:worked-out-later"


class IgnoringStrides(TorchContender):
    """Takes the first numbers that lie in memory, whatever the steps between an array's elements are."""

    def stage(self, arrays: Any) -> Any:
        flat = [a if a.base is None else a.base.reshape(-1)[: a.size].reshape(a.shape) for a in arrays]
        return super().stage(flat)


def test_a_contender_that_ignores_strides_is_refused() -> None:
    verifier = verifier_of("TOWER")
    found = verifier.verify(LocalChild(IgnoringStrides(torch.no_grad()(MODEL), TOWER.workload)))  # type: ignore[arg-type]
    assert [text.partition(":")[0] for text in said(found)] == ["inputs that are not contiguous"]


def test_answers_remembered_by_content_are_right_and_gain_nothing() -> None:
    """No timed set comes twice, so that a look-up by content never finds anything."""
    from optimizer.benchmarking.bursts import MIN_CALLS, Entrant, try_burst, warm_up
    from optimizer.inputs import draw

    remembering = Remembering(lambda x: x.numpy().tobytes())
    assert verify("TOWER", remembering).passed
    seen = len(remembering.known)
    rng = np.random.default_rng(5)

    def fresh() -> list[np.ndarray]:
        return draw(TOWER.workload, TOWER.workload.sizes(), rng)

    entrant: Any = Entrant("remembering", LocalChild(TorchContender(torch.no_grad()(remembering), TOWER.workload)))  # type: ignore[arg-type]
    for _ in range(4):
        try_burst(entrant, fresh, [fresh() for _ in range(3)])
    assert len(remembering.known) == seen + 4 * (3 + 1), "three timed calls and one before them, each burst"
    warm_up(entrant, fresh, 0.01)
    assert len(remembering.known) == seen + 4 * (3 + 1) + MIN_CALLS, (
        "only the warm-up repeats itself, and it is not timed"
    )


def test_honest_candidates_raise_no_alarm() -> None:
    assert verify("TOWER", MODEL).passed
    assert verify("TOWER", lambda x: MODEL(x.clone()).clone()).passed
    assert verify("TOWER", torch.nn.Sequential(MODEL, torch.nn.Identity())).passed
