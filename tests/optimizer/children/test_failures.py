"""Which error an exception becomes, and which line is the model's own."""

from __future__ import annotations

import errno
import importlib.util
from pathlib import Path

import pytest

from optimizer.children.failures import document
from optimizer.children.operations import find
from optimizer.errors import FuseworksError


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "id_"),
    [
        (ValueError("x"), "child:user:exception"),
        (SystemExit(0), "child:user:exception"),
        (MemoryError(), "child:user:out-of-memory"),
        (OSError(errno.ENOMEM, "x"), "child:user:out-of-memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "child:user:out-of-memory"),
        (RuntimeError("std::bad_alloc"), "child:user:out-of-memory"),
        (ValueError("not enough memory of things past"), "child:user:exception"),
        (OSError(errno.ENOSPC, "x"), "child:user:disk-full"),
        (OSError(errno.EFBIG, "x"), "child:user:disk-full"),
        (OSError(errno.EACCES, "x"), "child:user:exception"),
        (FuseworksError("child:user:bad-answer", text="t"), "child:user:bad-answer"),
    ],
)
def test_an_exception_becomes_its_error(error: BaseException, id_: str) -> None:
    assert document(raised(error))["id"] == id_


def test_the_detail_is_the_traceback_unless_the_error_has_its_own() -> None:
    assert "Traceback" in document(raised(ValueError("x")))["detail"]
    own = FuseworksError("child:user:bad-answer", detail="mine", text="t")
    assert document(raised(own))["detail"] == "mine"


def test_the_place_is_the_innermost_line_of_the_models_own_file(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import json\n\n\ndef forward():\n    return json.loads('{')\n")
    spec = importlib.util.spec_from_file_location("model_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(ValueError, match="Expecting") as caught:
        module.forward()
    assert document(caught.value)["place"] == "model.py:5"


@pytest.mark.parametrize("op", ["", "x", "os.system", "..x", "a b.c", "children.__main__"])
def test_only_a_stages_own_operations_are_found(op: str) -> None:
    with pytest.raises((LookupError, ImportError, AttributeError)):
        find(op)
