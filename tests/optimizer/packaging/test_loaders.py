"""Whatever can be packaged can be loaded by the `run.py` that the package brings along."""

from __future__ import annotations

from optimizer.compiling.base import BACKENDS
from optimizer.packaging import loading, run_template


def test_each_backend_that_infers_has_settings_libraries_and_a_loader() -> None:
    inferring = {backend.name for backend in BACKENDS if backend.formats & {"pt2", "onnx"}}
    assert set(loading._SETTINGS) == set(loading.LIBRARIES) == set(run_template.LOADERS) == inferring


def test_what_torchao_leaves_is_loaded_as_what_aot_inductor_leaves_and_without_torchao() -> None:
    assert run_template.LOADERS["torchao"] is run_template.LOADERS["aot_inductor"]
    assert loading.LIBRARIES["torchao"] == ["torch"]
