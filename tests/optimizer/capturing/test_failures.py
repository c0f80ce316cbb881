"""Every failure names the user's own line and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optimizer.children import failures
from optimizer.errors import FuseworksError
from tests.optimizer.capturing.uploads import capture, line_of, module


def refused(path: Path, tmp_path: Path, **fields: Any) -> FuseworksError:
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "scratch", **fields)
    assert caught.value.side == "user"
    assert len(caught.value.remedy) > 30 and "<" not in caught.value.message
    return caught.value


# each: the body of Model, the words of the guilty line, the id, words of the message or remedy
FORWARD_FAILURES = {
    "a branch on values": (
        "if x.sum() > 0:\n            x = -x\n        return x",
        "if x.sum() > 0",
        "data-dependent-branch",
        "torch.where",
    ),
    "a branch on an item": (
        "if x[0, 0].item() > 0:\n            x = -x\n        return x",
        "if x[0, 0].item() > 0",
        "data-dependent-branch",
        "torch.where",
    ),
    "a number out of a tensor": (
        "for _ in range(int(x[0, 0].item())):\n            x = x * 2\n        return x",
        "for _ in range(int(",
        "data-dependent-value",
        "Stay in tensors",
    ),
    "an exception": ("raise ValueError('boom')", "raise ValueError", "forward-failed", "ValueError: boom"),
    "a wrong shape": ("return x @ torch.ones(3, 3)", "x @ torch.ones", "forward-failed", "RuntimeError"),
    "a number as output": ("return x, 3", "def forward", "non-tensor-output", "'out1' is a int"),
    "none as output": ("return {'a': x, 'b': None}", "def forward", "non-tensor-output", "'b' is None"),
    "no output": ("return []", "def forward", "no-output", "returns no tensor"),
    "a buffer that counts": (
        "self.count.add_(1)\n        return x + self.count",
        "self.count.add_(1)",
        "mutated-buffer",
        "'count'",
    ),
    "a view of a buffer that is written": (
        "self.count[0] = x.sum()\n        return x + self.count",
        "self.count[0] =",
        "mutated-buffer",
        "'count'",
    ),
    "Python's own random numbers": (
        "import random\n        return x * random.random()",
        "def forward",
        "not-repeatable",
        "random",
    ),
}


@pytest.mark.parametrize("case", FORWARD_FAILURES)
def test_it_names_the_line_in_forward(case: str, tmp_path: Path) -> None:
    code, words, id_, text = FORWARD_FAILURES[case]
    body = f"""
def __init__(self):
    super().__init__()
    self.register_buffer("count", torch.zeros(1))

def forward(self, x):
        {code}
"""
    path = module(tmp_path, body)
    error = refused(path, tmp_path)
    assert (error.id, error.place) == (f"capturing:user:{id_}", f"model.py:{line_of(path, words)}")
    assert text in error.message + error.remedy


def test_a_syntax_error_is_shown_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "ranker.py"
    path.write_text("import torch\n\ndef get_inputs(:\n    return []\n")
    error = refused(path, tmp_path)
    assert (error.id, error.place) == ("capturing:user:syntax-error", "ranker.py:3")


def test_a_package_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import torch\nimport our_features.tables\n")
    error = refused(path, tmp_path)
    assert (error.id, error.place) == ("capturing:user:missing-package", "model.py:2")
    assert "'our_features'" in error.message and ".zip" in error.remedy


def test_an_exception_at_import_is_shown_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import torch\n\nTABLE = [1, 2][7]\n")
    error = refused(path, tmp_path)
    assert (error.id, error.place) == ("capturing:user:import-failed", "model.py:3")
    assert "IndexError: list index out of range" in error.message


@pytest.mark.parametrize("name", ["Model", "get_inputs"])
def test_a_missing_name_of_the_convention_is_named(name: str, tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return x")
    path.write_text(path.read_text().replace(f"class {name}(", "class Other(").replace(f"def {name}(", "def other("))
    error = refused(path, tmp_path)
    assert (error.id, error.place) == ("capturing:user:missing-name", "model.py")
    assert f"no {name!r}" in error.message and "get_inputs()" in error.remedy


def test_a_model_that_is_a_function_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import torch\ndef Model():\n    return 1\ndef get_inputs():\n    return [torch.ones(2)]\n")
    error = refused(path, tmp_path)
    assert error.id == "capturing:user:not-a-module" and "a function" in error.message


def test_an_exception_in_init_is_shown_with_its_line(tmp_path: Path) -> None:
    body = "def __init__(self):\n    super().__init__()\n    self.l = nn.Linear(8, 'four')"
    path = module(tmp_path, body)
    error = refused(path, tmp_path)
    assert (error.id, error.place) == ("capturing:user:init-failed", f"model.py:{line_of(path, 'nn.Linear')}")


def test_an_exception_in_get_inputs_is_shown_with_its_line(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return x", inputs="[torch.ones(2, 2).to('cuda')]")
    error = refused(path, tmp_path)
    assert (error.id, error.place) == ("capturing:user:inputs-failed", f"model.py:{line_of(path, 'cuda')}")
    assert "CPU" in error.remedy


@pytest.mark.parametrize(
    ("inputs", "id_", "text"),
    [
        ("torch.ones(2, 2)", "bad-inputs", "a Tensor instead of a list"),
        ("[]", "bad-inputs", "an empty list"),
        ("{'x': torch.ones(2, 2)}", "bad-inputs", "a dict instead of a list"),
        ("[torch.ones(2, 2), 5j]", "scalar-input", "'k' is a Python complex"),
        ("[5, 'same']", "scalar-input", "'x' is a Python int"),
        ("[torch.ones(2, 2), [torch.ones(2)]]", "nested-input", "'k' is a list"),
        ("[torch.ones(2, 2), torch.ones(2, dtype=torch.complex64)]", "bad-inputs", "complex64"),
    ],
)
def test_inputs_that_are_not_plain_tensors_are_refused(inputs: str, id_: str, text: str, tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x, k=None):\n    return x", inputs=inputs)
    error = refused(path, tmp_path)
    line = line_of(path, "def get_inputs")
    assert (error.id, error.place) == (f"capturing:user:{id_}", f"model.py:{line}")
    assert text in error.message


def test_too_many_inputs_are_told_at_forward(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return x", inputs="[torch.ones(2, 2), torch.ones(2)]")
    error = refused(path, tmp_path)
    assert (error.id, error.place) == ("capturing:user:forward-failed", f"model.py:{line_of(path, 'def forward')}")
    assert "takes 2 positional arguments but 3 were given" in error.message


def test_an_operation_without_a_graph_is_named_with_its_line(tmp_path: Path) -> None:
    text = module(tmp_path, "def forward(self, x):\n    return torch.ops.capture_test.opaque(x)").read_text()
    define = (
        "torch.library.define('capture_test::opaque', '(Tensor x) -> Tensor')\n"
        "torch.library.impl('capture_test::opaque', 'CPU', lambda x: x + 1)\n\n"
    )
    path = tmp_path / "model.py"
    path.write_text(text.replace("class Model", define + "class Model"))
    error = refused(path, tmp_path)
    at = f"model.py:{line_of(path, 'return torch.ops.capture_test')}"
    assert (error.id, error.place) == ("capturing:user:unsupported-operation", at)
    assert "capture_test" in error.message


def test_a_value_baked_in_while_tracing_is_caught(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.seen = None

def forward(self, x):
    if self.seen is None:
        self.seen = 1
        return x
    return x * 2
"""
    error = refused(module(tmp_path, body), tmp_path)
    assert error.id in ("capturing:user:not-repeatable", "capturing:user:export-differs")


def test_the_users_own_name_of_the_file_can_be_given(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return [][0]").rename(tmp_path / "upload")
    error = refused(path, tmp_path, format="py", shown="ranker.py")
    assert error.place == f"ranker.py:{line_of(path, 'return [][0]')}"


def test_a_format_that_is_not_known_is_ours(tmp_path: Path) -> None:
    with pytest.raises(FuseworksError) as caught:
        capture(tmp_path / "model.bin", tmp_path, format="bin")
    assert caught.value.id == "capturing:ours:format"


HUNGRY = "torch.empty(1 << 50)"


@pytest.mark.parametrize("where", ["forward", "__init__", "get_inputs"])
def test_what_the_memory_does_not_hold_is_told_as_that_and_not_as_a_failure_of_the_code(
    where: str, tmp_path: Path
) -> None:
    code = {name: HUNGRY if name == where else "None" for name in ("forward", "__init__")}
    body = f"""
def __init__(self):
    super().__init__()
    {code["__init__"]}

def forward(self, x):
    {code["forward"]}
    return x
"""
    path = module(tmp_path, body, inputs=f"[{HUNGRY}]" if where == "get_inputs" else "[torch.ones(2, 3)]")
    with pytest.raises(RuntimeError) as caught:
        capture(path, tmp_path / "s")
    told = failures.document(caught.value)
    assert (told["id"], told["place"]) == ("child:user:out-of-memory", f"model.py:{line_of(path, HUNGRY)}")
