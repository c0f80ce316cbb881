"""What a file is, by its name, its first bytes and (zip) its listing; with the way to export what is not read.

It loads nothing and unpacks nothing: what it accepts is still inspected in a sandbox. Refusals raise PlatformError with
ids `registry:user:...`.
"""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath
from typing import BinaryIO, NoReturn

from django.conf import settings

from fuseworks.core.errors import PlatformError
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue
from fuseworks.registry.archives import Listing
from fuseworks.registry.errors import EXPORT, MODULE
from fuseworks.registry.models import Format

MIB = 1 << 20
HEAD_BYTES = 4096
# As the optimizer's inspector has them: a file that it will refuse need not come in.
LIMIT_BYTES = {Format.PT2: 8 << 30, Format.ZIP: 8 << 30, Format.ONNX: 2 << 30, Format.PY: 2 * MIB}
ACCEPTED = tuple(f".{format_}" for format_ in Format)

FROM_PYTORCH = f"In the program that builds the model: `{EXPORT}`, {MODULE}."
FROM_SCRIPT = f"TorchScript cannot be exported anew: in the program that builds the model, `{EXPORT}`, {MODULE}."
FROM_PICKLE = (
    "A pickle runs code when it is loaded. In the program that builds the model: "
    f"`model.load_state_dict(torch.load(FILE, weights_only=True))` and `{EXPORT}`, {MODULE}."
)
FROM_WEIGHTS = "These are weights without a model: zip them as `weights.safetensors` beside a `model.py`."
FROM_TENSORFLOW = "Convert it to ONNX with tf2onnx: `python -m tf2onnx.convert`."
FROM_KERAS = 'Convert it: `keras.models.load_model(FILE).export("model.onnx", format="onnx")`.'
FROM_ENGINE = "It is compiled for one runtime: upload the model that it was built from."
FROM_HUGGING_FACE = (
    "Write a model.py whose `Model` builds `transformers.AutoModel.from_config(...)` and zip it with the weights as "
    f"`weights.safetensors`, or export it: `{EXPORT}`"
)
UNPACK = "Unpack it and pack the model as a zip, or upload the one file inside."

SUFFIXES = {
    ".pt": ("a PyTorch checkpoint or TorchScript", FROM_PICKLE),
    ".bin": ("a PyTorch checkpoint", FROM_PICKLE),
    ".pth": ("a pickled PyTorch checkpoint", FROM_PICKLE),
    ".ckpt": ("a checkpoint", FROM_PICKLE),
    ".pkl": ("a pickle", FROM_PICKLE),
    ".pickle": ("a pickle", FROM_PICKLE),
    ".joblib": ("a pickle", FROM_PICKLE),
    ".safetensors": ("a safetensors file", FROM_WEIGHTS),
    ".npz": ("an archive of numpy arrays", FROM_WEIGHTS),
    ".npy": ("a numpy array", FROM_WEIGHTS),
    ".pb": ("a TensorFlow graph", FROM_TENSORFLOW),
    ".tflite": ("a TensorFlow Lite model", FROM_TENSORFLOW),
    ".h5": ("a Keras file", FROM_KERAS),
    ".keras": ("a Keras file", FROM_KERAS),
    ".gguf": ("a GGUF file of llama.cpp", FROM_PYTORCH),
    ".engine": ("a TensorRT engine", FROM_ENGINE),
    ".plan": ("a TensorRT engine", FROM_ENGINE),
    ".ipynb": ("a notebook", FROM_PYTORCH),
    ".mlmodel": ("a Core ML model", FROM_PYTORCH),
    ".json": ("a JSON document", FROM_PYTORCH),
    ".gz": ("a gzip archive", UNPACK),
    ".tgz": ("a tar archive", UNPACK),
    ".tar": ("a tar archive", UNPACK),
}
STARTS = (
    (b"GGUF", "a GGUF file of llama.cpp", FROM_PYTORCH),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras)", FROM_KERAS),
    (b"\x7fELF", "a compiled program or library", FROM_ENGINE),
    (b"MZ", "a compiled program or library", FROM_ENGINE),
    (b"\x1f\x8b", "a gzip archive", UNPACK),
    (b"BZh", "a bzip2 archive", UNPACK),
    (b"\xfd7zXZ\0", "an xz archive", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK),
    (b"Rar!", "a RAR archive", UNPACK),
    (b"%PDF", "a PDF document", FROM_PYTORCH),
    (b"\x93NUMPY", "a numpy array", FROM_WEIGHTS),
)
ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
# The first key of a protobuf ModelProto: its fields 1 to 8 with the wire types that they have.
ONNX_STARTS = frozenset({0x08, 0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42})


def clean_filename(name: str) -> str:
    """The last part of a file's name as a person may see it. Raises PlatformError (`registry:usage:filename`)."""
    last = name.replace("\\", "/").rpartition("/")[2].strip()
    if not last or last in (".", "..") or len(last) > 200 or any(unicodedata.category(c)[0] == "C" for c in last):
        raise PlatformError("registry:usage:filename", name=name[:80])
    return last


def format_by_name(filename: str) -> Format:
    """What a file of this name should be; the refusal comes before its bytes do."""
    suffix = PurePosixPath(filename).suffix.lower()
    if suffix in ACCEPTED:
        return Format(suffix[1:])
    if suffix in SUFFIXES:
        _foreign(*SUFFIXES[suffix], filename)
    raise PlatformError("registry:user:unknown-format", place=filename, text=f"its suffix is {suffix or 'missing'}")


def check_size(format_: Format, size_bytes: int, filename: str) -> None:
    if size_bytes <= 0:
        raise PlatformError("registry:user:empty", place=filename)
    limit_bytes = min(LIMIT_BYTES[format_], settings.MAX_UPLOAD_BYTES)
    if size_bytes > limit_bytes:
        raise PlatformError(
            "registry:usage:too-large",
            place=filename,
            size_mib=-(-size_bytes // MIB),
            limit_mib=limit_bytes // MIB,
            format=format_,
        )


def examine(file: BinaryIO, filename: str) -> Format:
    """What the file is. Leaves its position anywhere."""
    expected = format_by_name(filename)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    if head.startswith(ZIP_STARTS):
        return _zip(file, expected, filename)
    _refuse_foreign_head(head, filename)
    if expected in (Format.PT2, Format.ZIP):
        _wrong_suffix(filename, "no zip archive")
    if expected == Format.PY and b"\0" in head:
        _wrong_suffix(filename, "no text")
    if expected == Format.ONNX and head[0] not in ONNX_STARTS:
        _wrong_suffix(filename, "no ONNX model")
    return expected


def _zip(file: BinaryIO, expected: Format, filename: str) -> Format:
    listing = Listing(file, filename)
    if listing.is_pt2():
        if expected != Format.PT2:
            _wrong_suffix(filename, "a program saved by torch.export")
        return Format.PT2
    _refuse_foreign_zip(listing, filename)
    if expected != Format.ZIP:
        _wrong_suffix(filename, "a zip archive")
    listing.check_model()
    return Format.ZIP


def _refuse_foreign_head(head: bytes, filename: str) -> None:
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        _foreign("a bare Python pickle", FROM_PICKLE, filename)
    for start, what, remedy in STARTS:
        if head.startswith(start):
            _foreign(what, remedy, filename)
    if head[257:262] == b"ustar":
        _foreign("a tar archive", UNPACK, filename)
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        _foreign("a safetensors file", FROM_WEIGHTS, filename)


def _refuse_foreign_zip(listing: Listing, filename: str) -> None:
    last, inner = listing.last, listing.inner
    if "constants.pkl" in last and any(name.startswith("code/") for name in inner):
        _foreign("a TorchScript archive", FROM_SCRIPT, filename)
    if any(name.startswith("data/aotinductor/") for name in inner):
        _foreign("a compiled AOTInductor package", FROM_ENGINE, filename)
    if "data.pkl" in inner:
        _foreign("a pickled PyTorch checkpoint", FROM_PICKLE, filename)
    if "serialized_exported_program.json" in last:
        _foreign("an exported program in the form of an old torch", f"Save it anew: `{EXPORT}`", filename)
    if "saved_model.pb" in last:
        _foreign("a TensorFlow SavedModel", FROM_TENSORFLOW, filename)
    if "model.weights.h5" in last:
        _foreign("a Keras file", FROM_KERAS, filename)
    if all(name.endswith(".npy") for name in last):
        _foreign("an archive of numpy arrays", FROM_WEIGHTS, filename)
    if "model.py" not in last and "config.json" in last:
        _foreign("a Hugging Face folder", FROM_HUGGING_FACE, filename)


def _foreign(what: str, remedy: str, filename: str) -> NoReturn:
    raise PlatformError("registry:user:foreign", place=filename, what=what, remedy=remedy)


def _wrong_suffix(filename: str, what: str) -> NoReturn:
    suffix = PurePosixPath(filename).suffix.lower()
    raise PlatformError("registry:user:wrong-suffix", place=filename, suffix=suffix, what=what)
