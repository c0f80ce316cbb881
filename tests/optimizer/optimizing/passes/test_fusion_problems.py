"""The whole library over small models as strangers write them: what is found, what is not, and nothing that is wrong.

Occurrences are counted by hand in `tests/kernels/problems/`. The passes that tidy a graph and recognise attention run
first, as they do in a plan.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

import kernels
from kernels.lowering import is_fused, lower_to_reference
from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from optimizer.result import Rewrite
from tests.kernels import problems
from tests.kernels.problems import FRIENDS, PROBLEMS, Problem
from tests.optimizer.optimizing.support import BATCH, export, reasons
from tests.optimizer.optimizing.truth import assert_same

kernels.load()
problems.load()
PASSES = ("remove_noops", "eliminate_common_subexpressions", "fuse_attention", "fuse_operations")


def fused(problem: Problem) -> tuple[torch.nn.Module, Graph, Rewrite]:
    model, inputs = problem.build(), problem.inputs(seed=1)
    dims = tuple({0: BATCH} if place in problem.batch else None for place in range(len(inputs)))
    graph = Graph.from_exported(export(model, *inputs, dims=dims if problem.batch else None))
    with torch.no_grad():
        result = run_passes(graph, [(name, {}) for name in PASSES])[-1]
    return model, graph, result


def found_in(graph: Graph) -> Counter[str]:
    return Counter(str(node.target.name()).partition("::")[2] for node in graph.nodes if is_fused(node))


def assert_right(problem: Problem, model: torch.nn.Module, graph: Graph) -> None:
    """The answers of the original for other values, and for a batch of another size where that is dynamic."""
    inputs = problem.inputs(seed=2)
    doubled = tuple(torch.cat([x, x]) if place in problem.batch else x for place, x in enumerate(inputs))
    assert_same(model, graph, inputs, *([doubled] if problem.batch else []), tolerance=problem.tolerance)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_what_occurs_in_a_problem_is_found_and_gives_the_same_answers(problem: Problem) -> None:
    model, graph, result = fused(problem)
    wanted = Counter(problem.expected)
    wanted.subtract(problem.missed)
    assert found_in(graph) == +wanted, (reasons(result.applied), reasons(result.refused))
    assert_right(problem, model, graph)


@pytest.mark.parametrize("problem", FRIENDS, ids=str)
def test_a_false_friend_does_not_become_what_it_looks_like(problem: Problem) -> None:
    model, graph, result = fused(problem)
    assert problem.looks_like not in problem.expected and problem.looks_like in kernels.KERNELS.names()
    assert found_in(graph) == Counter(problem.expected), reasons(result.applied)
    assert_right(problem, model, graph)


@pytest.mark.parametrize(
    "name", ["AnglesOfHalfAHead", "OwnParameters", "ToPaddedByAMask", "HeadOfASequence", "ExpertsLast"]
)
def test_what_is_made_in_front_of_an_operation_is_exported_again_and_lowered(name: str) -> None:
    (problem,) = [problem for problem in PROBLEMS if problem.name == name]
    model, graph, _ = fused(problem)
    lowered = lower_to_reference(graph.to_exported())
    assert not any(is_fused(node) for node in lowered.graph.nodes)
    inputs = problem.inputs(seed=3)
    with torch.no_grad():
        torch.testing.assert_close(lowered.module()(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


def test_nine_of_ten_occurrences_in_a_hundred_problems_are_found() -> None:
    """By the problems' own lists, which the tests above hold to be exactly so."""
    assert len({str(problem) for problem in PROBLEMS}) == len(PROBLEMS) >= 100
    occur = sum((Counter(problem.expected) for problem in PROBLEMS), Counter())
    missed = sum((Counter(problem.missed) for problem in PROBLEMS), Counter())
    assert 1 - missed.total() / occur.total() >= 0.9, f"{missed.total()} of {occur.total()} are missed: {missed}"


def test_the_false_friends_are_at_least_thirty() -> None:
    assert len({str(friend) for friend in FRIENDS}) == len(FRIENDS) >= 30


def test_every_kernel_that_matches_occurs_in_a_problem_and_has_a_false_friend() -> None:
    matching = {kernel.name for kernel in kernels.KERNELS if kernel.patterns or kernel.spellings}
    occur: set[Any] = set().union(*(problem.expected for problem in PROBLEMS))
    assert matching - occur == set()
    assert matching - {friend.looks_like for friend in FRIENDS} == set()
