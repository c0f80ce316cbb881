"""The formats that Fuseworks does not read, told by suffix, first bytes or names, each with the way to export anew."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from optimizer.uploads.refusals import EXPORT, MODULE, Refused
from optimizer.uploads.zip_listing import Listing

FROM_PYTORCH = f"In the program that builds the model: `{EXPORT}`, {MODULE}."
FROM_SCRIPT = f"TorchScript cannot be exported anew: in the program that builds the model, `{EXPORT}`, {MODULE}."
FROM_PICKLE = (
    "A pickle runs code when it is loaded. In the program that builds the model: "
    f"`model.load_state_dict(torch.load(FILE, weights_only=True))` and `{EXPORT}`, {MODULE}."
)
FROM_OLD_EXPORT = f"Save it anew: `{EXPORT}`"
FROM_NOTEBOOK = f"Copy the model's class into a file. {FROM_PYTORCH}"
FROM_JSON = (
    "A profiler trace is no model: `fuseworks diagnose` reads it, and a platform's page for traces takes it. "
    f"{FROM_PYTORCH}"
)
FROM_WEIGHTS = "These are weights without a model: zip them as `weights.safetensors` beside a `model.py`."
FROM_TENSORFLOW = "Convert it: `python -m tf2onnx.convert --saved-model FOLDER --output model.onnx`."
FROM_TFLITE = "Convert it: `python -m tf2onnx.convert --tflite FILE --output model.onnx`."
FROM_KERAS = 'Convert it: `keras.models.load_model(FILE).export("model.onnx", format="onnx")`.'
FROM_ENGINE = "It is compiled for one runtime: upload the model that it was built from."
FROM_OPENVINO = "OpenVINO's own files cannot be read back: upload the model that they were converted from, as ONNX."
FROM_HUGGING_FACE = (
    "Write a model.py whose `Model` builds `transformers.AutoModel.from_config(...)` and zip it with the weights as "
    f"`weights.safetensors`, or export it: `{EXPORT}`"
)
UNPACK = "Unpack it and pack the model as a zip, or upload the one file inside."
PACK = "Pack it: `zip -r model.zip model.py weights.safetensors`."


class Foreign(NamedTuple):
    what: str
    remedy: str

    def refused(self) -> Refused:
        return Refused("foreign", what=self.what, remedy=self.remedy)


PICKLE = Foreign("a pickle", FROM_PICKLE)
KERAS = Foreign("a Keras file", FROM_KERAS)
TFLITE = Foreign("a TensorFlow Lite model", FROM_TFLITE)
TENSORRT = Foreign("a TensorRT engine", FROM_ENGINE)
PROGRAM = Foreign("a compiled program or library", FROM_ENGINE)
GGUF = Foreign("a GGUF file of llama.cpp", FROM_PYTORCH)
SAFETENSORS = Foreign("a safetensors file", FROM_WEIGHTS)
ARRAY = Foreign("a numpy array", FROM_WEIGHTS)
ARRAYS = Foreign("an archive of numpy arrays", FROM_WEIGHTS)
SAVED_MODEL = Foreign("a TensorFlow SavedModel", FROM_TENSORFLOW)
HUGGING_FACE = Foreign("a Hugging Face folder", FROM_HUGGING_FACE)
GZIP = Foreign("a gzip archive", UNPACK)
TAR = Foreign("a tar archive", UNPACK)
JSON = Foreign("a JSON document", FROM_JSON)

SUFFIXES = {
    ".pt": Foreign("a PyTorch checkpoint or TorchScript", FROM_PICKLE),
    ".bin": Foreign("a PyTorch checkpoint", FROM_PICKLE),
    ".pth": Foreign("a pickled PyTorch checkpoint", FROM_PICKLE),
    ".ckpt": Foreign("a checkpoint", FROM_PICKLE),
    ".pkl": PICKLE,
    ".pickle": PICKLE,
    ".joblib": PICKLE,
    ".safetensors": SAFETENSORS,
    ".npz": ARRAYS,
    ".npy": ARRAY,
    ".pb": Foreign("a TensorFlow graph", FROM_TENSORFLOW),
    ".tflite": TFLITE,
    ".h5": KERAS,
    ".keras": KERAS,
    ".gguf": GGUF,
    ".engine": TENSORRT,
    ".plan": TENSORRT,
    ".xml": Foreign("an OpenVINO model", FROM_OPENVINO),
    ".ipynb": Foreign("a notebook", FROM_NOTEBOOK),
    ".mlmodel": Foreign("a Core ML model", FROM_PYTORCH),
    ".json": JSON,
    ".gz": GZIP,
    ".tgz": TAR,
    ".tar": TAR,
}
# (offset, bytes there, what it is)
MARKS = (
    (0, b"GGUF", GGUF),
    (0, b"\x89HDF\r\n\x1a\n", Foreign("an HDF5 file (Keras)", FROM_KERAS)),
    (0, b"\x7fELF", PROGRAM),
    (0, b"MZ\x90\0", PROGRAM),
    (0, b"\x1f\x8b", GZIP),
    (0, b"BZh", Foreign("a bzip2 archive", UNPACK)),
    (0, b"\xfd7zXZ\0", Foreign("an xz archive", UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", Foreign("a 7-Zip archive", UNPACK)),
    (0, b"Rar!", Foreign("a RAR archive", UNPACK)),
    (0, b"%PDF", Foreign("a PDF document", FROM_PYTORCH)),
    (0, b"\x93NUMPY", ARRAY),
    (0, b"ftrt", TENSORRT),
    (4, b"TFL3", TFLITE),
    (4, b"ORTM", Foreign("an ORT-format model", FROM_ENGINE)),
    (257, b"ustar", TAR),
)
PICKLE_PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
MAX_SAFETENSORS_HEADER = 1 << 30


def by_first_bytes(head: bytes) -> Foreign | None:
    if head.startswith(PICKLE_PROTOCOLS):
        return Foreign("a bare Python pickle", FROM_PICKLE)
    for offset, mark, foreign in MARKS:
        if head.startswith(mark, offset):
            return foreign
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < MAX_SAFETENSORS_HEADER:
        return SAFETENSORS
    return None


def by_listing(listing: Listing, suffix: str) -> Foreign | None:
    """Of a zip that is no program of torch.export."""
    inner, last = listing.inner | set(listing.names), listing.last
    if "constants.pkl" in last and any(name.startswith("code/") for name in inner):
        return Foreign("a TorchScript archive", FROM_SCRIPT)
    if any(name.startswith("data/aotinductor/") for name in inner):
        return Foreign("a compiled AOTInductor package", FROM_ENGINE)
    if "data.pkl" in inner:
        return Foreign("a pickled PyTorch checkpoint", FROM_PICKLE)
    if "serialized_exported_program.json" in last:
        return Foreign("an exported program in the form of an old torch", FROM_OLD_EXPORT)
    if "saved_model.pb" in last:
        return SAVED_MODEL
    if "model.weights.h5" in last or suffix == ".keras":
        return KERAS
    if suffix == ".npz" or (last and all(name.endswith(".npy") for name in last)):
        return ARRAYS
    if "model.py" not in last and "config.json" in last:
        return HUGGING_FACE
    return None


def folder(names: Set[str]) -> Foreign:
    """A folder in place of a file."""
    if "saved_model.pb" in names:
        return SAVED_MODEL
    if "model.py" in names:
        return Foreign("a folder", PACK)
    return HUGGING_FACE if "config.json" in names else Foreign("a folder", FROM_PYTORCH)
