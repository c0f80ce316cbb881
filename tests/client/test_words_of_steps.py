"""Steps in words: what the tables of the terminal and of the report say."""

from __future__ import annotations

import pytest

from fuseworks_client import words as terminal
from optimizer.reporting import words as report


@pytest.mark.parametrize("step", [terminal.step, report.step])
@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            {"pass": "split_target_attention", "options": {"form": "concat"}},
            "pass split_target_attention (form=concat)",
        ),
        ({"backend": "aot_inductor"}, "backend aot_inductor"),
        ({"precision": "bfloat16", "keep_float32": {"last_linears": 1}}, "precision bfloat16 (last_linears=1)"),
        (
            {
                "precision": "int8",
                "keep_float32": {"layers": [{"inputs": 8, "outputs": 16, "nth": [0, 2]}, {"inputs": 4, "outputs": 1}]},
            },
            "precision int8 (layers=8 to 16 (0, 2); 4 to 1)",
        ),
        (
            {
                "precision": "bfloat16",
                "keep_float32": {"layers": [{"op": "matmul", "inputs": 64, "nth": [1]}]},
            },
            "precision bfloat16 (layers=matmul 64 to any (1))",
        ),
        ({"precision": "int8", "rest": "bfloat16"}, "precision int8 (rest=bfloat16)"),
        (
            {"precision": "int8", "weight_only": [{"inputs": 64, "outputs": 8}]},
            "precision int8 (weight_only_layers=64 to 8)",
        ),
        (
            {"precision": "int8", "rest": "bfloat16", "rest_keep_float32": {"layers": [{"inputs": 8, "outputs": 1}]}},
            "precision int8 (rest=bfloat16, rest_layers=8 to 1)",
        ),
        ({"runtime": {"allocator": "glibc-no-trim"}}, "runtime allocator=glibc-no-trim"),
        ({"passes": ["remove_noops", "hoist_constants"]}, "passes remove_noops, hoist_constants"),
    ],
)
def test_every_kind_of_step_has_its_words(step, document, said):
    assert step(document) == said
