"""What a candidate failed is put to others again, and nothing else."""

from __future__ import annotations

from typing import Any

from optimizer.verifying.failing import answers_them, failed_edges, telling
from tests.planted.originals import TOWER
from tests.planted.support import child, verifier_of, verify
from tests.planted.test_wrong_rewrites import of, tower

WRONG_AT_AN_EDGE, WRONG_ANYWHERE = of(tower, epsilon=1e-5), of(tower, gelu="tanh")


def right(verification: Any, function: Any) -> bool:
    verifier = verifier_of("TOWER")
    asked = child(function, TOWER.workload)
    return answers_them(asked, verification, verifier.truths, verifier.rule("float32"), 60.0)


def test_the_question_that_tells_is_the_edge_where_only_edges_were_failed() -> None:
    truths = verifier_of("TOWER").truths
    at_an_edge, anywhere = verify("TOWER", WRONG_AT_AN_EDGE), verify("TOWER", WRONG_ANYWHERE)
    assert [question.name for question in failed_edges(at_an_edge, truths)] == ["small values", "nearly equal values"]
    assert telling(at_an_edge, truths).name == "small values"
    assert telling(anywhere, truths) is truths.pooled[0]


def test_another_candidate_is_asked_what_the_first_one_failed() -> None:
    at_an_edge, anywhere = verify("TOWER", WRONG_AT_AN_EDGE), verify("TOWER", WRONG_ANYWHERE)
    assert right(at_an_edge, tower) and right(anywhere, tower)
    assert not right(at_an_edge, WRONG_AT_AN_EDGE) and not right(anywhere, WRONG_ANYWHERE)
    assert right(anywhere, WRONG_AT_AN_EDGE), "what only another edge shows is not asked"
    assert not right(anywhere, lambda x: tower(x)[:, :2]), "an answer of another form is wrong"
