"""What a file is, told by name, first bytes and listing; and what is said of one that is not read."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable

import pytest

from fuseworks.core.errors import PlatformError
from fuseworks.registry import formats
from fuseworks.registry.models import Format
from optimizer.uploads import zip_listing
from optimizer.uploads.formats import LIMIT_BYTES

PT2 = {
    "m/archive_format": b"pt2",
    "m/models/model.json": b"{}",
    "m/data/weights/weight_0": bytes(16),
}
SOURCE = {"model.py": b"class Model: ...", "weights.safetensors": b"x"}


def packed(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


def refusal(data: bytes, filename: str) -> PlatformError:
    with pytest.raises(PlatformError) as caught:
        formats.examine(io.BytesIO(data), filename)
    assert caught.value.status == 422
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("data", "filename", "expected"),
    [
        (b"class Model: ...\n", "din.py", Format.PY),
        (packed(PT2), "din.pt2", Format.PT2),
        (packed(SOURCE), "DIN.ZIP", Format.ZIP),
        (packed({"top/model.py": b"x", "top/helper.py": b"x"}), "a.zip", Format.ZIP),
        (packed({"net.onnx": b"\x08\x0a", "net.data": bytes(9)}), "a.zip", Format.ZIP),
        (b"\x08\x0a\x12\x07pytorch", "net.onnx", Format.ONNX),
    ],
    ids=["source", "program", "zip", "one folder", "onnx in a zip", "onnx"],
)
def test_it_knows_what_it_reads(data: bytes, filename: str, expected: Format) -> None:
    assert formats.examine(io.BytesIO(data), filename) == expected


@pytest.mark.parametrize(
    ("data", "filename", "what", "remedy"),
    [
        (
            packed({"m/data.pkl": b"x", "m/constants.pkl": b"x", "m/code/f.py": b"x"}),
            "m.zip",
            "TorchScript",
            "torch.export",
        ),
        (packed({"m/data.pkl": b"x", "m/version": b"3"}), "m.zip", "pickled PyTorch checkpoint", "weights_only=True"),
        (packed({"data/aotinductor/model/x.so": b"x"}), "m.zip", "AOTInductor", "upload the model"),
        (packed({"config.json": b"{}", "model.safetensors": b"x"}), "m.zip", "Hugging Face", "model.py"),
        (packed({"x.npy": b"x"}), "m.zip", "numpy", "weights.safetensors"),
        (b"\x80\x04\x95abc", "m.py", "pickle", "runs code"),
        (b"\x7fELF\x02", "m.py", "compiled program", "built from"),
        (b"\x1f\x8b\x08", "m.onnx", "gzip", "Unpack"),
        (struct.pack("<Q", 64) + b'{"a":1}', "m.onnx", "safetensors", "model.py"),
    ],
    ids=["torchscript", "checkpoint", "aoti", "hugging face", "npz", "pickle", "elf", "gzip", "safetensors"],
)
def test_it_names_what_it_does_not_read_and_how_to_export_it(
    data: bytes, filename: str, what: str, remedy: str
) -> None:
    refused = refusal(data, filename)
    assert refused.id == "registry:user:foreign"
    assert what in refused.message
    assert remedy in refused.remedy


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pkl", ".safetensors", ".h5", ".tflite", ".gguf", ".json", ".tgz"])
def test_a_foreign_name_is_refused_before_a_byte_is_sent(suffix: str) -> None:
    with pytest.raises(PlatformError) as caught:
        formats.format_by_name(f"model{suffix}")
    assert caught.value.id == "registry:user:foreign"


@pytest.mark.parametrize("name", ["model", "model.exe", ".py.bak"])
def test_an_unknown_name_is_refused_with_what_is_read(name: str) -> None:
    with pytest.raises(PlatformError) as caught:
        formats.format_by_name(name)
    assert caught.value.id == "registry:user:unknown-format"
    assert ".onnx" in caught.value.message


@pytest.mark.parametrize(
    ("data", "filename"),
    [
        (packed(PT2), "m.zip"),
        (packed(SOURCE), "m.pt2"),
        (packed(SOURCE), "m.py"),
        (b"import torch", "m.pt2"),
        (b"a\0b", "m.py"),
        (b"import torch", "m.onnx"),
    ],
)
def test_a_suffix_that_does_not_fit_is_refused(data: bytes, filename: str) -> None:
    assert refusal(data, filename).id == "registry:user:wrong-suffix"


def flagged(data: bytes, flag: int) -> bytes:
    """Sets a bit of the flags in the listing of the first entry."""
    at = data.index(b"PK\x01\x02") + 8
    return data[:at] + struct.pack("<H", flag) + data[at + 2 :]


def renamed(data: bytes, before: bytes, after: bytes) -> bytes:
    assert len(before) == len(after) and before in data
    return data.replace(before, after)


def overlapping() -> bytes:
    """Two entries in the listing that share one place: how a bomb stays small."""
    data = packed({"model.py": b"x" * 50, "other.py": b"x" * 50})
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    return data[: second + 42] + struct.pack("<L", 0) + data[second + 46 :]


def link() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo("model.py")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return file.getvalue()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: renamed(packed({"aa/model.py": b"x"}), b"aa/model.py", b"../model.py"), "leads out"),
        (lambda: renamed(packed({"aa/model.py": b"x"}), b"aa/model.py", b"//etc/shado"), "leads out"),
        (lambda: packed({"a\\model.py": b"x"}), "characters"),
        (lambda: flagged(packed({"model.py": b"x"}), 1), "encrypted"),
        (lambda: packed({"model.py": bytes(4 << 20)}, zipfile.ZIP_DEFLATED), "unpacks to"),
        (lambda: packed({"model.py": b"x"}, zipfile.ZIP_LZMA), "unusual method"),
        (lambda: packed({"model.py": b"x", "Model.py": b"y"}), "same name"),
        (overlapping, "overlaps"),
        (link, "link"),
        (lambda: packed({}), "empty"),
        (lambda: packed({"model.py": b"x"})[:40], "not a zip"),
    ],
    ids=["up", "absolute", "backslash", "encrypted", "bomb", "lzma", "twins", "overlap", "link", "empty", "cut"],
)
def test_a_zip_that_no_tool_writes_is_refused(make: Callable[[], bytes], text: str) -> None:
    refused = refusal(make(), "m.zip")
    assert refused.id == "registry:user:bad-zip"
    assert text in refused.message


def test_a_zip_with_too_many_entries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_listing, "MAX_ENTRIES", 3)
    assert "4 entries" in refusal(packed({f"{n}.py": b"x" for n in range(4)}), "m.zip").message
    assert formats.examine(io.BytesIO(packed({"model.py": b"", "a.py": b"", "b.py": b""})), "m.zip") == Format.ZIP


def test_a_listing_is_never_read_whole_when_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_listing, "MAX_LISTING_BYTES", 70_000)
    data = packed({"model.py": b"x", **{f"{n:0380d}.py": b"" for n in range(200)}})
    assert "its listing has more than" in refusal(data, "m.zip").message


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"readme.txt": b"x"}, "neither a model.py nor a model.onnx"),
        ({"a/b/model.py": b"x"}, "neither"),
        ({"a.onnx": b"x", "b.onnx": b"x"}, "2 models"),
        ({"a/model.py": b"x", "b/model.py": b"x"}, "2 models"),
        ({"__MACOSX/model.py": b"x"}, "neither"),
    ],
)
def test_a_zip_holds_one_model(entries: dict[str, bytes], text: str) -> None:
    refused = refusal(packed(entries), "m.zip")
    assert refused.id == "registry:user:bad-zip-content"
    assert text in refused.message


def test_each_format_of_a_version_has_a_limit() -> None:
    # those of a trace go by its suffix (`optimizer.uploads.traces`)
    assert {str(name) for name in Format} - {"trace"} == set(LIMIT_BYTES)


@pytest.mark.parametrize(
    ("name", "clean"), [("C:\\models\\din.py", "din.py"), ("/tmp/din.py", "din.py"), ("模型.pt2", "模型.pt2")]
)
def test_a_name_loses_its_folders(name: str, clean: str) -> None:
    assert formats.clean_filename(name) == clean


@pytest.mark.parametrize("name", ["", "/", "..", "a\0b.py", "a\nb.py", "ab\u202e.py"])
def test_a_name_that_could_deceive_is_refused(name: str) -> None:
    with pytest.raises(PlatformError) as caught:
        formats.clean_filename(name)
    assert caught.value.id == "registry:usage:filename"


@pytest.mark.parametrize("characters", [201, 4000])
def test_a_name_that_is_too_long_is_refused_with_the_length_that_it_may_have(characters: int) -> None:
    name = "n" * (characters - 3) + ".py"
    with pytest.raises(PlatformError) as caught:
        formats.clean_filename(f"folder/{name}")
    assert caught.value.id == "registry:usage:long-filename"
    assert caught.value.message == f"The file's name has {characters} characters; it may have 200."
    longest = name[-200:]
    assert formats.clean_filename(f"{'folder/' * 50}{longest}") == longest
