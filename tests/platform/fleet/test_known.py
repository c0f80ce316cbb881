"""What is known of passes and backends, by what workers told."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.fleet.known import known, nearest
from tests.platform.runs.steps import at, worker_row


def manifest(**names: list[str]) -> dict[str, Any]:
    return {kind: [{"name": name} for name in given] for kind, given in names.items()}


@pytest.mark.django_db
class TestKnown:
    def test_without_a_manifest_nothing_is_unknown(self) -> None:
        worker_row("silent", manifest={})
        assert known().unknown_passes(["no_such_pass"]) == []
        assert known().unknown_backends(["nope"]) == []

    def test_it_is_what_any_worker_told_the_dead_ones_too(self) -> None:
        worker_row("a", manifest=manifest(passes=["fold_batch_norm"], backends=["openvino"]))
        worker_row("b", seen=at(-99999), manifest=manifest(onnx_passes=["drop_casts"], backends=["onnxruntime"]))
        assert known().unknown_passes(["drop_casts", "no_such_pass", "fold_batch_norm"]) == ["no_such_pass"]
        assert known().unknown_backends(["onnxruntime", "nope", "openvino"]) == ["nope"]

    def test_a_target_is_answered_by_its_own_workers(self) -> None:
        worker_row("a", manifest=manifest(backends=["openvino"]))
        worker_row("b", target="cuda:sm_90", manifest=manifest(backends=["tensorrt"]))
        assert known(target="cpu").unknown_backends(["openvino", "tensorrt"]) == ["tensorrt"]
        assert known(target="rocm:gfx942").unknown_backends(["tensorrt"]) == []


def test_the_nearest_are_those_spelt_alike_and_all_where_none_is() -> None:
    there = frozenset({"fold_batch_norm", "fuse_operations", "drop_casts"})
    assert nearest("fold_batchnorm", there).startswith("fold_batch_norm")
    assert "drop_casts" not in nearest("fold_batchnorm", there)
    assert nearest("qqqq", there) == "drop_casts, fold_batch_norm, fuse_operations"
