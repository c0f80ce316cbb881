"""What the inspector takes, and what it calls the files that it does not take."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.capturing.inspector import inspect_upload
from tests.optimizer.capturing.inspector_files import onnx_bytes, pickled_zip, refusal, safetensors, write_zip

MODULE = "import torch\n\nclass Model(torch.nn.Module):\n    pass\n"
EXPORT_LINE = 'torch.export.save(torch.export.export(model.eval(), example_inputs), "model.pt2")'


def test_a_python_file_is_taken_with_its_digest_and_size(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODULE)
    info = inspect_upload(path)
    assert (info.format, info.size_bytes) == ("py", len(MODULE))
    assert info.sha256 == hashlib.sha256(MODULE.encode()).hexdigest()


def test_the_inspector_imports_neither_torch_nor_onnx() -> None:
    code = "import sys, optimizer.capturing.inspector; print({'torch', 'onnx', 'numpy'} & set(sys.modules))"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "set()"


def test_every_example_of_the_project_is_taken() -> None:
    paths = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.py"))
    assert {inspect_upload(path).format for path in paths if path.name != "__init__.py"} <= {"py"}


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("model.pkl", pickle.dumps({"w": 1}), "bare Python pickle"),
        ("model.pt2", pickle.dumps({"w": 1}), "bare Python pickle"),
        ("model.py", pickle.dumps({"w": 1}, protocol=2), "bare Python pickle"),
        ("model.bin", b"anything", "checkpoint"),
        ("model.pth", b"anything", "checkpoint"),
        ("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(20), "Keras"),
        ("model.tflite", b"\x1c\0\0\0TFL3" + bytes(20), "TensorFlow Lite"),
        ("saved_model.pb", b"\x08\x01", "TensorFlow"),
        ("model.gguf", b"GGUF\x03\0\0\0", "GGUF"),
        ("model.onnx", b"GGUF\x03\0\0\0", "GGUF"),
        ("model.so", b"\x7fELF" + bytes(20), "compiled"),
        ("trace.json.gz", b"\x1f\x8b\x08" + bytes(20), "gzip"),
        ("trace.json", b'{"traceEvents": []}', "JSON"),
        ("model.safetensors", safetensors({"w": ("F32", [1], 4)}), "safetensors"),
        ("model.ipynb", b'{"cells": []}', "notebook"),
        ("model.ort", b"\x1c\0\0\0ORTM", "ORT"),
        ("model.xml", b"<net/>", "OpenVINO"),
    ],
)
def test_a_foreign_file_is_named_for_what_it_is_and_says_how_to_export(
    tmp_path: Path, name: str, data: bytes, what: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    error = refusal(path)
    assert error.id == "inspecting:user:foreign"
    assert what in error.message
    assert len(error.remedy) > 30


@pytest.mark.parametrize(
    ("entries", "name", "what", "line"),
    [
        ({"m/code/__torch__.py": "", "m/constants.pkl": "", "m/data.pkl": ""}, "model.pt", "TorchScript", EXPORT_LINE),
        ({"m/data.pkl": "x", "m/data/0": "x"}, "model.pt", "pickled PyTorch checkpoint", EXPORT_LINE),
        ({"m/data.pkl": "x", "m/data/0": "x"}, "model.zip", "pickled PyTorch checkpoint", EXPORT_LINE),
        ({"m/data/aotinductor/model/m.so": "x"}, "model.pt2", "AOTInductor", "built from"),
        ({"serialized_exported_program.json": "{}", "version": "1"}, "model.pt2", "old torch", EXPORT_LINE),
        ({"saved_model.pb": "x", "variables/v": "x"}, "model.zip", "SavedModel", "tf2onnx"),
        ({"config.json": "{}", "model.weights.h5": "x"}, "model.keras", "Keras", "export("),
        ({"config.json": "{}", "model.safetensors": "x"}, "bert.zip", "Hugging Face", "AutoModel"),
        ({"arr_0.npy": "x"}, "weights.npz", "numpy", "model.py"),
    ],
)
def test_a_foreign_archive_is_named_for_what_it_is_and_says_how_to_export(
    tmp_path: Path, entries: dict[str, str], name: str, what: str, line: str
) -> None:
    error = refusal(write_zip(tmp_path / name, entries))
    assert error.id == "inspecting:user:foreign"
    assert what in error.message
    assert line in error.remedy


@pytest.mark.parametrize(
    ("file", "what"), [("saved_model.pb", "SavedModel"), ("config.json", "Hugging Face"), ("model.py", "zip -r")]
)
def test_a_folder_is_named_for_what_it_holds(tmp_path: Path, file: str, what: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / file).touch()
    error = refusal(tmp_path / "model")
    assert what in error.message + error.remedy


def test_a_missing_an_empty_and_an_unreadable_file_are_told_apart(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.pt2").id == "inspecting:user:missing"
    (tmp_path / "empty.pt2").touch()
    assert refusal(tmp_path / "empty.pt2").id == "inspecting:user:empty"
    os.mkfifo(tmp_path / "pipe.py")
    assert refusal(tmp_path / "pipe.py").id == "inspecting:user:unreadable"
    if os.geteuid() != 0:
        (tmp_path / "closed.py").write_text(MODULE)
        (tmp_path / "closed.py").chmod(0)
        assert refusal(tmp_path / "closed.py").id == "inspecting:user:unreadable"


def test_a_file_beyond_the_limit_of_its_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(b"#" * (3 << 20))
    error = refusal(path)
    assert error.id == "inspecting:user:too-large"
    assert "3 MiB; 2 MiB" in error.message


def test_a_huge_sparse_file_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with open(path, "wb") as file:
        file.write(onnx_bytes())
        file.truncate(3 << 30)
    assert refusal(path).id in ("inspecting:user:bad-onnx", "inspecting:user:too-large")


@pytest.mark.parametrize(
    ("data", "words"), [(b"a = 1\0", "zero bytes"), (b"a = '\xff\xfe'", "UTF-8"), (b" \n\t", "nothing")]
)
def test_a_python_file_that_is_no_text_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(data)
    error = refusal(path)
    assert error.id == "inspecting:user:bad-source"
    assert words in error.message


def test_a_zip_named_otherwise_and_a_pt2_that_is_no_zip_are_refused_by_name(tmp_path: Path) -> None:
    error = refusal(write_zip(tmp_path / "model.pt2", {"model.py": MODULE}))
    assert error.id == "inspecting:user:wrong-suffix"
    (tmp_path / "other.pt2").write_bytes(b"no zip at all")
    assert refusal(tmp_path / "other.pt2").id == "inspecting:user:wrong-suffix"
    (tmp_path / "model.txt").write_text(MODULE)
    assert refusal(tmp_path / "model.txt").id == "inspecting:user:unknown"


def test_a_pickle_inside_a_torch_zip_is_named_whatever_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(pickled_zip(pickle.dumps([1])))
    assert "pickled" in refusal(path).message
