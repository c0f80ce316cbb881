"""Engines without a compiler: each builds in one child, loads in another, and answers as eager does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from optimizer.errors import FuseworksError
from tests.optimizer.compiling.support import (
    WORKLOAD,
    Builder,
    Built,
    Loaded,
    assert_held,
    assert_right,
    inputs,
)


@pytest.mark.parametrize("options", [{}, {"level": "disabled"}, {"level": "basic", "spinning": False}])
def test_onnx_runtime_answers_as_eager(builder: Builder, tmp_path: Path, options: dict[str, object]) -> None:
    built = builder.build("ranker", tmp_path, "onnxruntime", options)
    assert built.reply.fields["details"]["entry"] == "model.onnx"
    with Loaded(built) as loaded:
        assert_right(loaded)
        assert_held(loaded)
        assert loaded.reply.fields["inference_precision"] == "float32"
        assert set(loaded.reply.fields["libraries"]) == {"numpy", "onnxruntime"}


@pytest.mark.parametrize("options", [{}, {"static": True}])
def test_openvino_answers_as_eager_in_float32(builder: Builder, tmp_path: Path, options: dict[str, object]) -> None:
    built = builder.build("ranker", tmp_path, "openvino", options)
    assert built.reply.fields["details"]["load"]["config"]["INFERENCE_PRECISION_HINT"] == "f32"
    with Loaded(built) as loaded:
        assert_right(loaded, (4, 1, 8, 3, 7))
        assert_held(loaded)
        assert loaded.reply.fields["inference_precision"] == "float32"


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_an_onnx_file_is_taken_as_it_is(builder: Builder, tmp_path: Path, backend: str) -> None:
    with Loaded(builder.build("onnx", tmp_path, backend)) as loaded:
        assert_right(loaded)


def test_eager_leaves_no_artifact_and_runs_the_captured_graph(builder: Builder, tmp_path: Path) -> None:
    built = builder.build("ranker", tmp_path / "out", "eager")
    assert not built.folder.exists() or not list(built.folder.iterdir())
    with Loaded(built) as loaded:
        assert_right(loaded, tolerance=0)
        assert_held(loaded)
        assert loaded.reply.fields["threads"] == 1
        assert loaded.reply.fields["rss_bytes_after_import"] > 50 << 20


def test_eager_builds_the_users_own_module_with_the_captured_weights(models: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    upload = tmp_path / "ranker.py"
    upload.write_text(
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.zeros(1))\n"
        "    def forward(self, ids, dense, keep):\n"
        "        return dense * self.scale\n"
        "def get_inputs():\n"
        "    return []\n"
    )
    save_file({"scale": torch.tensor([3.0])}, tmp_path / "weights.safetensors")
    eager = Built("eager", {}, models["ranker"], "pt2", tmp_path / "none", None, None)
    with Loaded(eager, upload=upload, weights=tmp_path / "weights.safetensors", upload_format="py", seed=1) as loaded:
        given = inputs(3)
        ((answer,),) = loaded.outputs(given)
    np.testing.assert_array_equal(answer, given[1] * np.float32(3))


def test_a_mutated_input_is_seen(builder: Builder, tmp_path: Path) -> None:
    with Loaded(builder.build("writes", tmp_path / "out", "eager")) as loaded:
        reply = loaded.child.call("verifying.run", inputs(4), timeout_s=60, sets=1)
    assert reply.fields["mutated"] == [1]


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_what_an_engine_lacks_is_unsupported_in_its_own_words(builder: Builder, tmp_path: Path, backend: str) -> None:
    with pytest.raises(FuseworksError) as caught:
        builder.build("exotic", tmp_path, backend)
    assert caught.value.id == "compiling:user:unsupported", caught.value.detail
    assert "linalg_eig" in caught.value.message
    assert len(caught.value.message) < 900


def test_a_static_model_runs_where_the_workload_has_no_dims(builder: Builder, tmp_path: Path) -> None:
    document = WORKLOAD.model_dump(by_alias=True, mode="json")
    for spec in document["inputs"]:
        spec["shape"] = [5 if size == "batch" else size for size in spec["shape"]]
    workload = type(WORKLOAD).model_validate({**document, "dims": {}})
    built = builder.build("static", tmp_path, "openvino", {"static": True}, workload=workload)
    with Loaded(built) as loaded:
        assert_right(loaded, (5,))
