"""`.py` files and the zip around a `model.py`: texts that are texts, and no file that is neither source nor weights."""

from __future__ import annotations

from optimizer.capturing.inspector_archive import Archive
from optimizer.capturing.inspector_onnx import inspect_onnx_zip
from optimizer.capturing.inspector_safetensors import inspect_safetensors
from optimizer.errors import FuseworksError
from optimizer.uploads.contents import contents

MAX_SOURCE_BYTES = 2 << 20
MAX_TEXT_BYTES = 8 << 20
TEXTS = (".yaml", ".yml", ".json", ".txt", ".md", ".toml", ".cfg", ".csv")


def check_source(data: bytes, name: str) -> None:
    """Raises FuseworksError (`inspecting:user:bad-source`). Whether it is Python, the child finds out."""
    if b"\0" in data:
        raise FuseworksError("inspecting:user:bad-source", place=name, text="it holds zero bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FuseworksError("inspecting:user:bad-source", place=name, text=f"it is not UTF-8 ({error})") from error
    if not text.strip():
        raise FuseworksError("inspecting:user:bad-source", place=name, text="it holds nothing")


def inspect_zip(archive: Archive) -> None:
    """Raises FuseworksError: a zip holds `model.py` and what goes with it, or one ONNX model and its data."""
    names, sources, models = contents(archive.listing)
    if len(sources) > 1:
        raise _refused(archive, f"it holds {len(sources)} files model.py")
    if sources:
        for name in names:
            _check_beside_source(archive, name)
    elif len(models) == 1:
        inspect_onnx_zip(archive, models[0], names)
    elif models:
        raise _refused(archive, f"it holds {len(models)} ONNX models")
    else:
        raise _refused(archive, f"neither a model.py nor a model.onnx is among {', '.join(names[:5])}")


def _check_beside_source(archive: Archive, name: str) -> None:
    lowered = name.lower()
    if lowered.endswith(".py"):
        check_source(archive.read(name, MAX_SOURCE_BYTES), name)
    elif lowered.endswith(".safetensors"):
        inspect_safetensors(name, archive.size(name), lambda size: archive.start_of(name, size))
    elif lowered.endswith(TEXTS) or name.rpartition("/")[2] in ("LICENSE", "README"):
        check_text(archive.read(name, MAX_TEXT_BYTES), name, archive)
    else:
        raise _refused(archive, f"{name!r} is neither source, nor text, nor safetensors")


def check_text(data: bytes, name: str, archive: Archive) -> None:
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(archive, f"{name!r} is not UTF-8 text") from error


def _refused(archive: Archive, text: str) -> FuseworksError:
    return FuseworksError("inspecting:user:bad-zip-content", place=archive.place, text=text)
