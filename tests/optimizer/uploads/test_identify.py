"""What web and inspector hear alike of a file; what each of them says then is tested with it."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from optimizer.uploads.contents import contents
from optimizer.uploads.foreign import SUFFIXES, folder
from optimizer.uploads.formats import ACCEPTED
from optimizer.uploads.identify import format_by_name, identify
from optimizer.uploads.refusals import Refused
from optimizer.uploads.zip_listing import Listing

ROOT = Path(__file__).resolve().parents[3]


def packed(*names: str) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return file


def refused(file: io.BytesIO, filename: str) -> Refused:
    with pytest.raises(Refused) as caught:
        identify(file, filename)
    return caught.value


def test_nothing_but_the_standard_library_is_imported() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import optimizer.uploads.identify; "
        "print(sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['__main__', 'optimizer']"


def test_a_name_says_what_a_file_should_be_in_any_case() -> None:
    assert [format_by_name(f"DIN{suffix.upper()}") for suffix in ACCEPTED] == ["pt2", "py", "zip", "onnx"]
    with pytest.raises(Refused) as caught:
        format_by_name("model.xml")
    assert (caught.value.reason, caught.value.context["what"]) == ("foreign", "an OpenVINO model")


def test_no_format_is_both_taken_and_foreign() -> None:
    assert not set(ACCEPTED) & set(SUFFIXES)


def test_an_archive_comes_with_its_listing_and_a_single_file_with_its_head() -> None:
    found = identify(packed("top/model.py", "top/a/b.py"), "m.zip")
    assert (found.format, found.listing and found.listing.names) == ("zip", ["top/model.py", "top/a/b.py"])
    assert (found.listing and found.listing.inner) == {"model.py", "a/b.py"}
    assert (found.listing and found.listing.last) == {"model.py", "b.py"}
    assert identify(io.BytesIO(b"import torch\n"), "m.py") == ("py", b"import torch\n", None)


@pytest.mark.parametrize(
    ("data", "filename", "what"),
    [
        (b"MZ\x90\0\x03", "m.py", "a compiled program or library"),
        (b"\x1c\0\0\0TFL3", "m.onnx", "a TensorFlow Lite model"),
        (b"ftrt", "m.onnx", "a TensorRT engine"),
        (b' {"a": 1}', "m.pt2", "a JSON document"),
        (bytes(257) + b"ustar", "m.onnx", "a tar archive"),
    ],
)
def test_the_first_bytes_say_more_than_the_name(data: bytes, filename: str, what: str) -> None:
    error = refused(io.BytesIO(data), filename)
    assert (error.reason, error.context["what"]) == ("foreign", what)


def test_source_that_begins_like_a_mark_is_source() -> None:
    assert identify(io.BytesIO(b"MZ = 5\n"), "m.py").format == "py"
    assert identify(io.BytesIO(b"[print(1)]\n"), "m.py").format == "py"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("a", "a/model.py"), "lies below a file"),
        (("model.py", "more.tar"), "is an archive in the archive"),
        (("b/", "B"), "two entries have the same name"),
    ],
)
def test_what_no_folder_could_hold_is_refused(names: tuple[str, ...], text: str) -> None:
    error = refused(packed(*names), "m.zip")
    assert (error.reason, text in error.context["text"]) == ("bad-zip", True)


def test_a_zip_of_folders_alone_is_no_archive_of_arrays() -> None:
    found = identify(packed("a/", "b/"), "m.zip")
    assert found.listing is not None and contents(found.listing) == ([], [], [])


def test_contents_leave_out_what_operating_systems_add() -> None:
    names = ("m/model.py", "m/deep/model.py", "m/a.onnx", "__MACOSX/m/._model.py", "m/__pycache__/x.pyc", "m/.DS_Store")
    assert contents(Listing(packed(*names))) == (
        ["m/model.py", "m/deep/model.py", "m/a.onnx"],
        ["m/model.py"],
        ["m/a.onnx"],
    )


def test_a_folder_is_told_by_what_lies_in_it() -> None:
    assert folder({"saved_model.pb", "model.py"}).what == "a TensorFlow SavedModel"
    assert "zip -r" in folder({"model.py", "config.json"}).remedy
    assert folder({"config.json"}).what == "a Hugging Face folder"
    assert folder(set()).what == "a folder"
