from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.sandbox import Reply
from optimizer.verifying.asking import CHUNK_SETS, ask
from optimizer.verifying.child import changed, overwrite, split
from tests.optimizer.verifying.local import LocalChild, TorchContender


def sets(count: int) -> list[list[np.ndarray]]:
    return [[np.full((2, 3), i, dtype=np.float32), np.array([i, i + 1])] for i in range(count)]


def summing(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + 1, n.sum()


def test_answers_come_back_in_order_over_several_chunks() -> None:
    child = LocalChild(TorchContender(summing))
    count = CHUNK_SETS + 3
    answers = ask(child, sets(count), timeout_s=5)  # type: ignore[arg-type]
    assert child.calls == ["verifying.run", "verifying.run"]
    assert [a[0][0, 0] for a in answers.whole()] == [i + 1 for i in range(count)]
    assert len(answers.seconds) == count


def test_a_set_that_raises_is_named_and_the_others_go_on() -> None:
    def picky(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if x[0, 0] == 1:
            raise ValueError("not one")
        return x

    answers = ask(LocalChild(TorchContender(picky)), sets(3), timeout_s=5, tolerant=True)  # type: ignore[arg-type]
    assert answers.failed == {1: "ValueError: not one"}
    assert [a is None for a in answers.sets] == [False, True, False]


def test_a_held_answer_is_read_again_after_the_others() -> None:
    buffer = torch.zeros(2, 3)
    child = LocalChild(TorchContender(lambda x, n: buffer.copy_(x)))
    answers = ask(child, sets(2), timeout_s=5, hold=True)  # type: ignore[arg-type]
    assert answers.whole()[0][0][0, 0] == 0
    assert answers.held is not None and answers.held[0][0, 0] == 1


def test_inputs_written_to_are_named_and_their_values_returned() -> None:
    child = LocalChild(TorchContender(lambda x, n: (x.clone(), n.add_(5))[0]))
    answers = ask(child, sets(2), timeout_s=5, after=[1])  # type: ignore[arg-type]
    assert answers.mutated == {1}
    assert answers.after[0].tolist() == [5, 6]


def test_nan_inputs_left_alone_are_not_taken_for_changed() -> None:
    before = [np.array([1.0, np.nan]), np.array([1, 2])]
    assert changed(before, [b.copy() for b in before]) == set()
    assert changed(before, [np.array([1.0, 0.0]), np.array([1, 2])]) == {0}


@dataclass
class Staged:
    tensors: list[Any]
    kwargs: dict[str, Any]


def test_overwriting_reaches_into_whatever_an_engine_stages() -> None:
    tensor, array, nested = torch.ones(2), np.ones(2), torch.ones(2)
    assert overwrite(Staged([tensor, array], {"more": (nested,)})) == 3
    assert not tensor.any() and not array.any() and not nested.any()
    assert overwrite(object()) == 0


def test_arrays_that_make_no_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="3 arrays do not make 2 sets"):
        split([np.zeros(1)] * 3, 2)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fields, arrays: (fields, arrays[:-1]),
        lambda fields, arrays: ({**fields, "mutated": [7]}, arrays),
        lambda fields, arrays: ({**fields, "seconds": "soon"}, arrays),
        lambda fields, arrays: ({}, arrays),
    ],
)
def test_what_a_child_says_is_checked_for_form(spoil: Any) -> None:
    class Spoiled(LocalChild):
        def call(self, op: str, arrays: Any = (), **options: Any) -> Reply:
            reply = super().call(op, arrays, **options)
            return Reply(*spoil(reply.fields, reply.arrays))

    from optimizer.errors import FuseworksError

    with pytest.raises(FuseworksError) as caught:
        ask(Spoiled(TorchContender(summing)), sets(2), timeout_s=5)  # type: ignore[arg-type]
    assert caught.value.id == "child:user:bad-answer"
