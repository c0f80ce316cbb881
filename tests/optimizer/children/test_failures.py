"""Which error an exception becomes, and which line is the model's own."""

from __future__ import annotations

import errno
import importlib.util
from pathlib import Path

import pytest

from optimizer.children import failures
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


def raised_from(path: Path, source: str) -> BaseException:
    """What `source`, as if it were that file, raises. This test's own frame is taken off."""
    try:
        exec(compile(source, str(path), "exec"), {})
    except BaseException as caught:
        return caught.with_traceback(caught.__traceback__ and caught.__traceback__.tb_next)
    raise AssertionError("nothing was raised")


IN_A_LIBRARY = "import json\njson.loads('{')"


@pytest.mark.parametrize("module", ["passes/fuse.py", "graph.py", "reexport.py"])
def test_what_a_library_raises_while_a_graph_is_rewritten_is_ours(module: str) -> None:
    error = raised_from(failures.REWRITING / module, IN_A_LIBRARY)
    assert document(error)["id"] == "child:ours:unexpected"
    assert "Expecting" in document(error)["detail"]


@pytest.mark.parametrize("module", ["capturing/torch_export.py", "compiling/base.py", "verifying/child.py"])
def test_what_a_library_raises_while_the_model_runs_is_the_models(module: str) -> None:
    error = raised_from(failures.OWN_PACKAGES[0] / module, IN_A_LIBRARY)
    assert document(error)["id"] == "child:user:exception"


def test_our_own_code_is_to_blame_for_what_it_raises_itself() -> None:
    error = raised_from(failures.OWN_PACKAGES[0] / "capturing" / "torch_export.py", "raise KeyError('x')")
    assert document(error)["id"] == "child:ours:unexpected"


def test_the_models_own_line_is_named_wherever_it_is_called_from(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(IN_A_LIBRARY)
    source = f"exec(compile(open({str(tmp_path / 'model.py')!r}).read(), {str(tmp_path / 'model.py')!r}, 'exec'), {{}})"
    found = document(raised_from(failures.REWRITING / "passes" / "fuse.py", source))
    assert (found["id"], found["place"]) == ("child:user:exception", "model.py:2")


def test_no_memory_is_no_memory_even_while_a_graph_is_rewritten() -> None:
    error = raised_from(failures.REWRITING / "graph.py", "raise MemoryError")
    assert document(error)["id"] == "child:user:out-of-memory"
