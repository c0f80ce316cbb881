"""A training step against torch's own optimizers on the user's own module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.inputs import draw
from tests.optimizer.capturing.uploads import Answer
from tests.optimizer.compiling.step.steps import captured, contender, rewritten

OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


def batches(answer: Answer, count: int = 3) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(5)
    found = [draw(answer.workload, {}, rng) for _ in range(count)]
    found[1][0][:] = 7  # one id many times over
    found[2][1][:] = 0  # padding only
    return found


def by_hand(folder: Path, optimizer: str, sets: list[list[np.ndarray]]) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The loop that a user writes; no code of ours in it."""
    namespace: dict[str, Any] = {}
    exec(compile((folder / "model.py").read_text(), "model.py", "exec"), namespace)
    model = namespace["Model"]().train()
    update = OPTIMIZERS[optimizer](model.parameters(), lr=0.1)
    losses = []
    for arrays in sets:
        *inputs, target = [torch.from_numpy(array.copy()) for array in arrays]
        update.zero_grad()
        loss = namespace["loss"](model(*inputs), target)
        loss.backward()
        update.step()
        losses.append(float(loss))
    return losses, {f"model.{name}": p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("with_passes", [False, True])
def test_steps_train_as_the_loop_that_a_user_writes(tmp_path: Path, optimizer: str, with_passes: bool) -> None:
    answer = captured(tmp_path, optimizer)
    sets = batches(answer)
    losses, parameters = by_hand(tmp_path, optimizer, sets)
    path = answer.files["captured.step"]
    one = contender(rewritten(path) if with_passes else path, answer.workload)
    assert bool(one.step.updates) == (with_passes and optimizer in {"sgd", "adagrad"})
    assert [float(one.call(one.stage(arrays))) for arrays in sets] == pytest.approx(losses, rel=1e-5)
    assert set(one.step.parameters) == set(parameters)
    for name, parameter in one.step.parameters.items():
        torch.testing.assert_close(parameter.detach(), parameters[name], rtol=1e-4, atol=1e-6)


def test_the_gradient_of_a_table_that_is_updated_by_rows_is_the_dense_one(tmp_path: Path) -> None:
    answer = captured(tmp_path)
    path = answer.files["captured.step"]
    dense, rows = contender(path, answer.workload), contender(rewritten(path), answer.workload)
    for arrays in batches(answer):
        for one in (dense, rows):
            one.reset()
            one.call(one.stage(arrays))
        (names, wanted), (same, got) = dense.gradients(), rows.gradients()
        assert names == same
        for mine, true in zip(got, wanted, strict=True):
            np.testing.assert_allclose(mine, true, rtol=1e-5, atol=1e-7)
    assert dict(zip(names, wanted, strict=True))["model.items.weight"].reshape(50, 6)[0].any() == np.False_


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_a_reset_puts_everything_back_to_where_it_began(tmp_path: Path, optimizer: str) -> None:
    answer = captured(tmp_path, optimizer)
    one = contender(rewritten(answer.files["captured.step"]), answer.workload)
    staged = [one.stage(arrays) for arrays in batches(answer)]
    first = [float(one.call(inputs)) for inputs in staged]
    assert np.abs(one.changes()).max() > 0
    one.reset()
    assert not one.changes().any()
    assert [float(one.call(inputs)) for inputs in staged] == first


def test_a_nudge_moves_each_parameter_by_a_rounding_error_and_the_same_seed_by_the_same(tmp_path: Path) -> None:
    answer = captured(tmp_path)
    one = contender(answer.files["captured.step"], answer.workload)
    before = one.step.parameters["model.head.weight"].detach().clone()
    found = []
    for seed in (1, 1, 2):
        one.reset(seed)
        found.append(one.step.parameters["model.head.weight"].detach().clone())
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    moved = ((found[0] - before) / before).abs()
    assert 0.5 * 2.0**-22 < float(moved.max()) < 2 * 2.0**-22


def test_an_answer_holds_the_loss_and_what_the_steps_since_the_reset_changed(tmp_path: Path) -> None:
    answer = captured(tmp_path)
    one = contender(answer.files["captured.step"], answer.workload)
    loss = one.call(one.stage(batches(answer)[0]))
    told, changes = one.outputs(loss)
    assert told.shape == () and float(told) == float(loss)
    gradient = dict(zip(*one.gradients(), strict=True))["model.head.weight"]
    at = list(one.step.parameters).index("model.head.weight")
    # 18 elements are fewer than the 64 sums, so that each sum is one element; SGD changes it by -lr * gradient
    np.testing.assert_allclose(changes[at, :18], -0.1 * gradient, rtol=1e-3, atol=1e-7)
    assert not changes[at, 18:].any()
