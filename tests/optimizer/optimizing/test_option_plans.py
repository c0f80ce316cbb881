"""Another library for matrix products is proposed where they take time, to the engine by itself as well as to ours."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.compiling.base import resolve
from optimizer.optimizing.option_plans import AUTOTUNED, OTHER_LIBRARY, autotuned, option_variants, products_share
from optimizer.result import Candidate, Operation, Profile

OURS = {"name": "aot_inductor + rewrites", "steps": [{"pass": "a"}, {"backend": "aot_inductor"}]}
PEER = {"name": "aot_inductor", "peer": True, "steps": [{"backend": "aot_inductor"}]}


def profile(**shares: float) -> Profile:
    rows = [Operation(op=op, calls=1, self_ms=1.0, share=share) for op, share in shares.items()]
    return Profile(operations=rows, total_ms=10.0)


def proposed(*plans: dict[str, Any], found: Profile | None = None) -> list[Candidate]:
    return option_variants([Candidate.model_validate(one) for one in plans], found or profile(linear=0.3, cat=0.7))


def test_ours_and_the_engine_by_itself_are_tried_alike() -> None:
    ours, peer = proposed(OURS, PEER)
    assert [ours.name, peer.name] == ["aot_inductor gemm=blas + rewrites", "aot_inductor gemm=blas"]
    assert (ours.peer, peer.peer) == (False, True)
    assert ours.steps[:-1] == Candidate.model_validate(OURS).steps[:-1]
    assert ours.steps[-1].options == peer.steps[-1].options == {"gemm": "blas"}  # type: ignore[union-attr]
    assert "30% of the time" in ours.why


@pytest.mark.parametrize("found", [profile(linear=0.29, cat=0.7), profile(cat=1.0)])
def test_where_products_take_little_nothing_is_tried(found: Profile) -> None:
    assert proposed(OURS, PEER, found=found) == []
    assert option_variants([Candidate.model_validate(OURS)], None) == []


def test_products_are_told_under_every_name() -> None:
    assert products_share(profile(**{"aten.bmm": 0.25, "addmm": 0.25, "embedding_bag": 0.5})) == 0.5


def test_an_option_that_a_plan_states_and_an_engine_that_has_none_stay_as_they_are() -> None:
    stated = {"name": "s", "steps": [{"backend": "aot_inductor", "options": {"gemm": "onednn"}}]}
    assert proposed(stated, {"name": "o", "steps": [{"backend": "openvino"}]}) == []


def test_an_engine_that_times_what_it_can_choose_among_is_a_plan_of_its_own_in_any_precision() -> None:
    steps = [{"precision": "bfloat16"}, {"backend": "inductor", "options": {"shapes": "static"}}]
    plan = Candidate.model_validate({"name": "inductor shapes=static + bfloat16", "peer": True, "steps": steps})
    found = autotuned(plan)
    assert found is not None and found.peer
    assert found.name == "inductor mode=max-autotune freezing=True shapes=static + bfloat16"
    assert found.steps[0] == plan.steps[0]
    assert found.steps[1].options == {"shapes": "static", "mode": "max-autotune", "freezing": True}  # type: ignore[union-attr]


def test_what_cannot_choose_or_has_chosen_is_no_such_plan() -> None:
    stated = {"name": "s", "steps": [{"backend": "inductor", "options": {"mode": "default"}}]}
    for plan in (stated, {"name": "o", "steps": [{"backend": "openvino"}]}):
        assert autotuned(Candidate.model_validate(plan)) is None


def test_what_is_proposed_is_an_option_that_the_engine_has() -> None:
    for backend, options in [*OTHER_LIBRARY.items(), *AUTOTUNED.items()]:
        chosen, default = resolve(backend, dict(options))[1], resolve(backend, {})[1]
        assert chosen != default
