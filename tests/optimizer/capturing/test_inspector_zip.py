"""Zips with a model.py or an ONNX model, and the zips that nobody's tool writes."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from optimizer.capturing.inspector import inspect_upload
from tests.optimizer.capturing.inspector_files import field, onnx_bytes, refusal, safetensors, write_zip

MODULE = "class Model: ...\n"


def test_a_module_with_weights_workload_samples_and_helpers_is_taken(tmp_path: Path) -> None:
    entries = {
        "m/model.py": MODULE,
        "m/layers.py": "x = 1\n",
        "m/deep/er.py": "y = 2\n",
        "m/weights.safetensors": safetensors({"a": ("F32", [2, 3], 24), "b": ("I64", [], 8), "c": ("BF16", [0], 0)}),
        "m/samples.safetensors": safetensors({}),
        "m/workload.yaml": "name: serving\n",
        "__MACOSX/m/._model.py": b"\x00\x05",
    }
    info = inspect_upload(write_zip(tmp_path / "m.zip", entries, zipfile.ZIP_DEFLATED))
    assert info.format == "zip"
    assert "m/weights.safetensors" in info.files


def test_an_onnx_model_with_its_data_is_taken(tmp_path: Path) -> None:
    entries = {"model.onnx": onnx_bytes("model.onnx.data"), "model.onnx.data": bytes(100)}
    assert inspect_upload(write_zip(tmp_path / "m.zip", entries)).format == "zip"
    entries = {"a/model.onnx": onnx_bytes("w/data"), "a/w/data": bytes(100), "a/README.md": "hello"}
    assert inspect_upload(write_zip(tmp_path / "n.zip", entries)).format == "zip"


@pytest.mark.parametrize("location", ["../../etc/passwd", "/etc/passwd", "a/../../b", "", "a\\b", "nowhere"])
def test_external_data_must_lie_beside_the_model(tmp_path: Path, location: str) -> None:
    entries = {"model.onnx": onnx_bytes(location), "data": b"x"}
    assert refusal(write_zip(tmp_path / "m.zip", entries)).id == "inspecting:user:external-data"


@pytest.mark.parametrize(
    "name",
    ["../model.py", "/model.py", "a/../../model.py", "a//model.py", "./model.py", "a\\..\\b.py", "C:x.py", "a\nb.py",
     "a" * 500 + ".py", "/".join("abcdefghijklmnop") + "/x.py"],
)  # fmt: skip
def test_a_name_that_leads_astray_is_refused(tmp_path: Path, name: str) -> None:
    error = refusal(write_zip(tmp_path / "m.zip", {"model.py": MODULE, name: "x"}))
    assert error.id == "inspecting:user:bad-zip"


def test_a_zero_byte_in_a_name_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "m.zip", {"model.py": MODULE, "evilXpy": "x"})
    path.write_bytes(path.read_bytes().replace(b"evilXpy", b"evil\0py"))
    assert refusal(path).id == "inspecting:user:bad-zip"


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.py", MODULE)
        link = zipfile.ZipInfo("weights.safetensors")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert "link" in refusal(path).message


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["model.py", "Model.py"])
def test_two_entries_of_one_name_are_refused(tmp_path: Path, second: str) -> None:
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.py", MODULE)
        archive.writestr(second, "evil")
    assert "same name" in refusal(path).message


def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path) -> None:
    assert "below a file" in refusal(write_zip(tmp_path / "m.zip", {"a": "x", "a/model.py": MODULE})).message


def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path) -> None:
    entries = {"model.py": MODULE, "notes.txt": bytes(50 << 20)}
    error = refusal(write_zip(tmp_path / "m.zip", entries, zipfile.ZIP_DEFLATED))
    assert "unpacks to" in error.message


def test_a_bomb_of_overlapping_entries_is_refused(tmp_path: Path) -> None:
    """Two listed entries that point at one local header."""
    path = write_zip(tmp_path / "m.zip", {"model.py": MODULE, "other.py": "x = 1\n"})
    data = bytearray(path.read_bytes())
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    path.write_bytes(data)
    assert refusal(path).id == "inspecting:user:bad-zip"


def test_an_entry_that_declares_less_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "m.zip", {"model.py": MODULE, "n.txt": "x" * 5000}, zipfile.ZIP_DEFLATED)
    data = path.read_bytes().replace(struct.pack("<I", 5000), struct.pack("<I", 50))
    path.write_bytes(data)
    assert refusal(path).id == "inspecting:user:bad-zip"


def test_encrypted_oddly_compressed_and_nested_archives_are_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "e.zip", {"model.py": MODULE})
    data = bytearray(path.read_bytes())
    for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(header) + offset] |= 1
    path.write_bytes(data)
    assert "encrypted" in refusal(path).message
    assert "method" in refusal(write_zip(tmp_path / "l.zip", {"model.py": MODULE}, zipfile.ZIP_LZMA)).message
    inner = io.BytesIO()
    zipfile.ZipFile(inner, "w").close()
    assert "archive in the archive" in refusal(write_zip(tmp_path / "n.zip", {"a.zip": inner.getvalue()})).message


def test_an_empty_a_cut_and_an_overfull_zip_are_refused(tmp_path: Path) -> None:
    assert "empty" in refusal(write_zip(tmp_path / "empty.zip", {})).message
    whole = write_zip(tmp_path / "m.zip", {"model.py": MODULE}).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:-30])
    assert refusal(tmp_path / "cut.zip").id == "inspecting:user:bad-zip"
    many = {f"f{number}.txt": "" for number in range(50_001)}
    assert "entries" in refusal(write_zip(tmp_path / "many.zip", many)).message


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"a.txt": "x"}, "neither a model.py"),
        ({"a/b/model.py": MODULE}, "neither a model.py"),
        ({"a/model.py": MODULE, "b/model.py": MODULE}, "2 files model.py"),
        ({"model.py": MODULE, "weights.pth": "x"}, "weights.pth"),
        ({"model.py": MODULE, "ext.so": "x"}, "ext.so"),
        ({"model.py": MODULE, "run.sh": "x"}, "run.sh"),
        ({"model.py": MODULE, "workload.yaml": b"\xff\xfe"}, "UTF-8"),
        ({"a.onnx": onnx_bytes(), "b.onnx": onnx_bytes()}, "2 ONNX models"),
        ({"a.onnx": onnx_bytes(), "evil.so": b"x"}, "evil.so"),
    ],
)
def test_a_zip_that_holds_something_else_says_what(tmp_path: Path, entries: dict[str, bytes], words: str) -> None:
    error = refusal(write_zip(tmp_path / "m.zip", entries))
    assert error.id == "inspecting:user:bad-zip-content"
    assert words in error.message


def _header(text: bytes, size: int = 0) -> bytes:
    return struct.pack("<Q", len(text)) + text + bytes(size)


@pytest.mark.parametrize(
    "data",
    [
        b"short",
        struct.pack("<Q", 1 << 60) + b"{}",
        _header(b"{nope"),
        _header(b"[]"),
        _header(b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', 4),
        _header(b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}', 4),
        _header(b'{"a": {"dtype": "PY", "shape": [1], "data_offsets": [0, 4]}}', 4),
        _header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}', 8),
        _header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', 400),
        _header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "x": 1}}', 4),
        _header(b'{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, '
                b'"b": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}', 4),
        _header(b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, '
                b'"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}', 1),
        _header(b"[" * 5000 + b"]" * 5000),
    ],
)  # fmt: skip
def test_a_safetensors_header_that_does_not_fit_is_refused(tmp_path: Path, data: bytes) -> None:
    error = refusal(write_zip(tmp_path / "m.zip", {"model.py": MODULE, "weights.safetensors": data}))
    assert error.id == "inspecting:user:bad-safetensors"
    assert error.place == "weights.safetensors"


def test_a_lone_onnx_file_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_bytes())
    assert inspect_upload(path).format == "onnx"


def test_a_lone_onnx_file_with_weights_elsewhere_says_to_zip_both(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_bytes("m.data"))
    error = refusal(path)
    assert error.id == "inspecting:user:external-data"
    assert "zip model.zip model.onnx m.data" in error.remedy


@pytest.mark.parametrize(
    "data",
    [
        b"not a protobuf at all",
        field(1, 8),
        field(7, field(1, b"")) + field(8, b""),
        field(1, 8) + field(7, field(1, b"")) + field(7, field(1, b"")) + field(8, b""),
        field(1, 8) + field(7, field(1, b"")) + field(8, b"") + field(99, 1),
        field(1, 8) + field(7, b"") + field(8, b""),
        field(1, 8) + b"\x3a\xff\xff\xff\xff\x0f" + b"x",
        b"\x08" + b"\xff" * 20,
        onnx_bytes()[:-3],
        b"\xff" * 50,
    ],
)
def test_bytes_that_are_no_model_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert refusal(path).id == "inspecting:user:bad-onnx"


def test_a_model_that_onnx_itself_wrote_is_taken(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    weight = helper.make_tensor("w", kinds.FLOAT, [2], [1.0, 2.0])
    shape = [helper.make_tensor_value_info(name, kinds.FLOAT, ["batch", 2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", shape[:1], shape[1:], [weight])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    assert inspect_upload(tmp_path / "m.onnx").format == "onnx"
