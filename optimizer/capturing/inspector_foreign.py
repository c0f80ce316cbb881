"""Names the formats that Fuseworks does not read, by their content, each with the line that exports the model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from optimizer.capturing.inspector_archive import Archive
from optimizer.capturing.inspector_errors import MODULE, TORCH_EXPORT
from optimizer.errors import FuseworksError

FROM_PYTORCH = f"In the program that builds the model: `{TORCH_EXPORT}`, {MODULE}."
FROM_SCRIPT = f"TorchScript cannot be exported anew: in the program that builds the model, `{TORCH_EXPORT}`, {MODULE}."
FROM_PICKLE = (
    "A pickle runs code when it is loaded. In the program that builds the model: "
    f"`model.load_state_dict(torch.load(FILE, weights_only=True))` and `{TORCH_EXPORT}`, {MODULE}."
)
FROM_TENSORFLOW = "Convert it: `python -m tf2onnx.convert --saved-model FOLDER --output model.onnx`."
FROM_KERAS = 'Convert it: `keras.models.load_model(FILE).export("model.onnx", format="onnx")`.'
FROM_TFLITE = "Convert it: `python -m tf2onnx.convert --tflite FILE --output model.onnx`."
FROM_HUGGING_FACE = (
    "Write a model.py whose `Model` builds `transformers.AutoModel.from_config(...)`, zip it with the weights as "
    f"`weights.safetensors`, or export it: `{TORCH_EXPORT}`"
)
FROM_WEIGHTS = "These are weights without a model: zip them as `weights.safetensors` beside a `model.py`."
FROM_ENGINE = "It is compiled for one runtime: upload the model that it was built from."
FROM_OPENVINO = "OpenVINO's own files cannot be read back: upload the model that they were converted from, as ONNX."

STARTS = (
    (b"GGUF", "a GGUF file of llama.cpp", FROM_PYTORCH),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras)", FROM_KERAS),
    (b"\x7fELF", "a compiled program or library", FROM_ENGINE),
    (b"\x1f\x8b", "a gzip archive", "Unpack it and upload the model inside."),
    (b"BZh", "a bzip2 archive", "Unpack it and upload the model inside."),
    (b"\xfd7zXZ\0", "an xz archive", "Unpack it and upload the model inside."),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "Unpack it and pack it as a zip."),
    (b"Rar!", "a RAR archive", "Unpack it and pack it as a zip."),
    (b"%PDF", "a PDF document", FROM_PYTORCH),
    (b"\x93NUMPY", "a numpy array", FROM_WEIGHTS),
    (b"ftrt", "a TensorRT engine", FROM_ENGINE),
)
AT_FOUR = ((b"TFL3", "a TensorFlow Lite model", FROM_TFLITE), (b"ORTM", "an ORT-format model", FROM_ENGINE))
SUFFIXES = {
    ".pkl": ("a pickle", FROM_PICKLE),
    ".pickle": ("a pickle", FROM_PICKLE),
    ".pth": ("a pickled PyTorch checkpoint", FROM_PICKLE),
    ".ckpt": ("a checkpoint", FROM_PICKLE),
    ".joblib": ("a pickle", FROM_PICKLE),
    ".safetensors": ("a safetensors file", FROM_WEIGHTS),
    ".npz": ("an archive of numpy arrays", FROM_WEIGHTS),
    ".npy": ("a numpy array", FROM_WEIGHTS),
    ".pb": ("a TensorFlow graph", FROM_TENSORFLOW),
    ".h5": ("a Keras file", FROM_KERAS),
    ".keras": ("a Keras file", FROM_KERAS),
    ".tflite": ("a TensorFlow Lite model", FROM_TFLITE),
    ".gguf": ("a GGUF file of llama.cpp", FROM_PYTORCH),
    ".engine": ("a TensorRT engine", FROM_ENGINE),
    ".plan": ("a TensorRT engine", FROM_ENGINE),
    ".xml": ("an OpenVINO model", FROM_OPENVINO),
    ".ipynb": ("a notebook", f"Copy the model's class into a file. {FROM_PYTORCH}"),
    ".mlmodel": ("a Core ML model", FROM_PYTORCH),
}
JSON_REMEDY = "A profiler trace or a configuration is no model. " + FROM_PYTORCH


def refuse(what: str, remedy: str, path: Path) -> NoReturn:
    raise FuseworksError("inspecting:user:foreign", place=path.name, what=what, remedy=remedy)


def refuse_foreign(path: Path, head: bytes) -> None:
    """For a file that is no zip; returns when it may be one of ours."""
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        refuse("a bare Python pickle", FROM_PICKLE, path)
    for start, what, remedy in STARTS:
        if head.startswith(start):
            refuse(what, remedy, path)
    for mark, what, remedy in AT_FOUR:
        if head[4:8] == mark:
            refuse(what, remedy, path)
    if head[257:262] == b"ustar":
        refuse("a tar archive", "Unpack it and pack the folder as a zip.", path)
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        refuse("a safetensors file", FROM_WEIGHTS, path)
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        refuse(*SUFFIXES[suffix], path)
    if suffix == ".json" or (suffix not in (".py", ".onnx") and head.lstrip()[:1] in (b"{", b"[")):
        refuse("a JSON document", JSON_REMEDY, path)
    if suffix in (".pt", ".bin"):
        refuse("a PyTorch checkpoint of an unknown kind", FROM_PICKLE, path)


def refuse_foreign_zip(archive: Archive, path: Path) -> None:
    """For a zip that is no `.pt2`; returns when it may hold a model.py or an ONNX model."""
    inner = {name.partition("/")[2] for name in archive.names} | set(archive.names)
    last = {name.rpartition("/")[2] for name in archive.names}
    if "constants.pkl" in last and any(name.startswith("code/") for name in inner):
        refuse("a TorchScript archive", FROM_SCRIPT, path)
    if any(name.startswith("data/aotinductor/") for name in inner):
        refuse("a compiled AOTInductor package", FROM_ENGINE, path)
    if "data.pkl" in inner:
        refuse("a pickled PyTorch checkpoint", FROM_PICKLE, path)
    if "serialized_exported_program.json" in last:
        refuse("an exported program in the form of an old torch", f"Save it anew: `{TORCH_EXPORT}`", path)
    if "saved_model.pb" in last:
        refuse("a TensorFlow SavedModel", FROM_TENSORFLOW, path)
    if "model.weights.h5" in last or path.suffix.lower() == ".keras":
        refuse("a Keras file", FROM_KERAS, path)
    if path.suffix.lower() == ".npz" or all(name.endswith(".npy") for name in archive.names):
        refuse("an archive of numpy arrays", FROM_WEIGHTS, path)
    if "model.py" not in last and "config.json" in last:
        refuse("a Hugging Face folder", FROM_HUGGING_FACE, path)


def refuse_folder(path: Path) -> NoReturn:
    entries = set(os.listdir(path)) if os.access(path, os.R_OK) else set()
    if "saved_model.pb" in entries:
        refuse("a TensorFlow SavedModel", FROM_TENSORFLOW, path)
    if "model.py" in entries:
        refuse("a folder", "Pack it: `zip -r model.zip model.py weights.safetensors`.", path)
    if "config.json" in entries:
        refuse("a Hugging Face folder", FROM_HUGGING_FACE, path)
    refuse("a folder", FROM_PYTORCH, path)
