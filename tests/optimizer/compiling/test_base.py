"""The registry of backends, seen from a process without torch; names, options and targets refused with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.compiling.availability import cpp_compiler, no_compiler, no_python_headers
from optimizer.compiling.base import BACKENDS, end_sizes, plain_inputs, resolve, serving_sizes
from optimizer.errors import FuseworksError
from optimizer.spec import Workload

NAMES = ["aot_inductor", "eager", "eager_step", "inductor", "inductor_step", "onnxruntime", "openvino", "torchao"]


def test_the_coordinator_reads_names_and_schemas_without_an_engine() -> None:
    code = (
        "import sys; from optimizer.compiling.base import BACKENDS; m = [b.manifest() for b in BACKENDS];"
        "[b.unavailable(t) for b in BACKENDS for t in ('cpu', 'cuda:sm_90')];"
        "import optimizer.compiling.toolchain, optimizer.compiling.precision;"
        "print([x['name'] for x in m], [n for n in ('torch', 'onnxruntime', 'openvino', 'onnx') if n in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"{NAMES} []"


@pytest.mark.parametrize("name", NAMES)
def test_each_option_has_a_default_and_a_description(name: str) -> None:
    manifest = BACKENDS.get(name).manifest()
    assert manifest["title"] and manifest["summary"].endswith(".") and manifest["formats"]
    for option in manifest["options_schema"].get("properties", {}).values():
        assert option["description"].endswith(".")
        assert "default" in option


@pytest.mark.parametrize(
    ("name", "options", "format", "id", "words"),
    [
        ("tvm", {}, "pt2", "compiling:user:unknown-backend", "known: aot_inductor, eager"),
        ("onnxruntime", {"level": "most"}, "onnx", "compiling:user:bad-options", "level: Input should be 'disabled'"),
        ("openvino", {"statik": True}, "onnx", "compiling:user:bad-options", "statik: Extra inputs"),
        ("inductor", {"max_compiles": 9}, "pt2", "compiling:user:bad-options", "max_compiles"),
        ("aot_inductor", {}, "onnx", "compiling:user:wrong-format", "takes pt2, and this model is onnx"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    name: str, options: dict[str, object], format: str, id: str, words: str
) -> None:
    with pytest.raises(FuseworksError) as caught:
        resolve(name, options, format)
    assert caught.value.id == id
    assert words in caught.value.message


def test_engines_of_the_cpu_say_so_for_a_gpu() -> None:
    assert "choose eager, inductor or aot_inductor" in (BACKENDS.get("openvino").unavailable("cuda:sm_90") or "")
    assert "choose eager, inductor or aot_inductor" in (BACKENDS.get("onnxruntime").unavailable("rocm:gfx942") or "")
    assert "no target called 'gpu'" in (BACKENDS.get("eager").unavailable("gpu") or "")


def test_without_a_compiler_the_compiling_backends_name_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    assert cpp_compiler() is None
    assert "install g++" in (no_compiler() or "")
    for name in ("inductor", "aot_inductor"):
        assert "install g++" in (BACKENDS.get(name).unavailable() or "")
    for name in ("eager", "onnxruntime", "openvino"):
        assert BACKENDS.get(name).unavailable() is None


def test_torch_compile_needs_the_headers_of_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    assert "Python.h is missing: install" in (no_python_headers() or "")
    if no_compiler() is None:
        assert BACKENDS.get("inductor").unavailable() == no_python_headers()
        assert BACKENDS.get("aot_inductor").unavailable() is None


WORKLOAD = Workload.model_validate(
    {
        "inputs": [
            {"name": "ids", "dtype": "int32", "shape": ["batch", "length"], "values": {"from": 3, "below": 9}},
            {"name": "x", "dtype": "bfloat16", "shape": []},
        ],
        "dims": {"batch": {"serve": [4, 8, 2], "min": 1, "max": 16}, "length": {"serve": [50, 10], "max": 64}},
    }
)


def test_serve_sizes_go_together_and_the_shorter_list_stays_at_its_last() -> None:
    assert serving_sizes(WORKLOAD) == [
        {"batch": 4, "length": 50},
        {"batch": 8, "length": 10},
        {"batch": 2, "length": 10},
    ]
    assert end_sizes(WORKLOAD) == [{"batch": 1, "length": 1}, {"batch": 16, "length": 64}]


def test_plain_inputs_keep_to_the_contract() -> None:
    ids, x = plain_inputs(WORKLOAD, {"batch": 2, "length": 5})
    assert (ids.dtype, ids.shape, set(ids.flat)) == ("int32", (2, 5), {3})
    assert (x.dtype, x.shape) == ("float32", ())
