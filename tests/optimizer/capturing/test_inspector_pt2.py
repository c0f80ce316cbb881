"""`.pt2` archives: all that torch.export writes is taken, and each known way to run code on loading is refused."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, export, save

from optimizer.capturing import inspector_json
from optimizer.capturing.inspector import inspect_upload
from tests.optimizer.capturing.inspector_files import (
    entry,
    model_json,
    refusal,
    rewritten,
    with_model,
    write_zip,
)


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("shift", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + self.shift


class Dynamic(torch.nn.Module):
    """Shape expressions with products, quotients and maxima."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.convolution(x).flatten(2).transpose(1, 2)
        return self.attention(y, y, y)[0].softmax(-1)


class Related(torch.nn.Module):
    """Guards between the sizes of its inputs."""

    def forward(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = inputs["a"], inputs["b"][0]
        return x + y, x.view(x.shape[0] // 2, -1) * x.shape[0] / 3


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))


class Custom(torch.nn.Module):
    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ops.fuseworks.add_rms_norm(x, residual, None, 1e-6)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import kernels.ops.add_rms_norm  # noqa: F401  defines the operator

    folder = tmp_path_factory.mktemp("pt2")
    plain, auto = export(Plain().eval(), (torch.randn(2, 4),)), {0: Dim.AUTO, 1: Dim.AUTO}
    sizes = {"x": {0: Dim("b", min=2, max=32), 2: 2 * Dim("h", min=4, max=20)}}
    nested = ({"a": torch.randn(8, 6), "b": [torch.randn(8, 6)]},)
    programs = {
        "plain": plain,
        "decomposed": plain.run_decompositions(),
        "dynamic": export(Dynamic().eval(), (torch.randn(2, 3, 10, 10),), dynamic_shapes=sizes, strict=False),
        "related": export(Related(), nested, dynamic_shapes=({"a": auto, "b": [auto]},)),
        "branching": export(Branching(), (torch.randn(3),)),
        "custom": export(Custom(), (torch.randn(2, 8), torch.randn(2, 8))),
    }
    for name, program in programs.items():
        save(program, folder / f"{name}.pt2")
    return {name: folder / f"{name}.pt2" for name in programs}


@pytest.mark.parametrize("name", ["plain", "decomposed", "dynamic", "related", "branching", "custom"])
def test_what_torch_saves_is_taken(saved: dict[str, Path], name: str) -> None:
    info = inspect_upload(saved[name])
    assert info.format == "pt2"
    assert info.operators


def test_the_saved_programs_really_hold_expressions_guards_and_our_operator(saved: dict[str, Path]) -> None:
    assert b"Max(Integer(1)" in entry(saved["dynamic"], "models/model.json")
    assert model_json(saved["related"])["guards_code"]
    assert "torch.ops.fuseworks.add_rms_norm.default" in inspect_upload(saved["custom"]).operators


class Evil:
    """Would make a folder when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.mkdir, ("/tmp/fuseworks-was-here",)


def _saved_tensors(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


SAMPLES = "data/sample_inputs/model.pt"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_sample_inputs_that_are_a_bare_pickle_are_refused(
    saved: dict[str, Path], tmp_path: Path, protocol: int
) -> None:
    samples = pickle.dumps(Evil(), protocol=protocol)
    assert refusal(rewritten(saved["plain"], tmp_path / "x.pt2", replace={SAMPLES: samples})).id == (
        "inspecting:user:bad-pt2"
    )


def test_sample_inputs_with_an_object_are_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    path = rewritten(saved["plain"], tmp_path / "x.pt2", replace={SAMPLES: _saved_tensors((Evil(),))})
    assert "more than tensors" in refusal(path).message


def test_pickled_weights_and_objects_among_the_constants_are_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    config = json.loads(entry(saved["plain"], WEIGHTS))
    config["config"]["linear.weight"]["use_pickle"] = True
    path = rewritten(saved["plain"], tmp_path / "a.pt2", replace={WEIGHTS: json.dumps(config).encode()})
    assert "pickled" in refusal(path).message
    for evil in ("opaque_obj_0", "custom_obj_0", "../weights/weight_0", "tensor_0/x", None):
        config = json.loads(entry(saved["plain"], CONSTANTS))
        config["config"]["shift"]["path_name"] = evil
        path = rewritten(saved["plain"], tmp_path / "b.pt2", replace={CONSTANTS: json.dumps(config).encode()})
        assert "object" in refusal(path).message
    del config["config"]["shift"]["use_pickle"]
    config["config"]["shift"]["path_name"] = "tensor_0"
    path = rewritten(saved["plain"], tmp_path / "c.pt2", replace={CONSTANTS: json.dumps(config).encode()})
    assert refusal(path).id == "inspecting:user:bad-pt2"


@pytest.mark.parametrize(
    "name",
    [
        "data/weights/model.pt",
        "data/constants/opaque_obj_0",
        "data/constants/custom_obj_0",
        "data/aotinductor/model/m.wrapper.so",
        "data/weights/evil.py",
        "extra/evil.pkl",
        "code/x.py",
        "models/second.json",
    ],
)
def test_an_entry_that_torch_export_does_not_write_is_refused(
    saved: dict[str, Path], tmp_path: Path, name: str
) -> None:
    data = entry(saved["plain"], "models/model.json") if name.startswith("models/") else b"x"
    assert refusal(rewritten(saved["plain"], tmp_path / "x.pt2", replace={name: data})).id == "inspecting:user:bad-pt2"


def test_an_archive_without_a_program_or_with_two_roots_is_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    path = rewritten(saved["plain"], tmp_path / "a.pt2", drop=["models/model.json"])
    assert "0 programs" in refusal(path).message
    assert (
        "top folder" in refusal(write_zip(tmp_path / "b.pt2", {"a/archive_format": "pt2", "b/byteorder": "x"})).message
    )


def _first(document: Any, key: str) -> dict[str, Any]:
    return next(value for value in inspector_json.objects(document) if key in value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Symbol('s0').func(1)",
        "(lambda: 1)()",
        "Integer(1).__class__",
        "exec('1')",
        "Symbol('__import__(1)')",
        "[1 for x in (1,)]",
        "os",
        "Lambda",
        "f'{1}'",
        "Integer(9" + "9" * 40 + ")",
        "Add(" * 200 + "1" + ")" * 200,
        "-" * 5000 + "1",
        "1\n+1",
        "Symbol('s0', evil=True)",
        "Symbol(*[1])",
        "x" * 30_000,
        7,
        None,
    ],
)
def test_a_shape_expression_outside_of_the_grammar_is_refused(
    saved: dict[str, Path], tmp_path: Path, text: Any
) -> None:
    document = model_json(saved["dynamic"])
    _first(document, "expr_str")["expr_str"] = text
    assert refusal(with_model(saved["dynamic"], tmp_path / "x.pt2", document)).id == "inspecting:user:bad-pt2"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true') == 0",
        "L['x'].__class__ == 1",
        "L['x'].size().__len__() == 1",
        "open('x') == 1",
        "torch.load('x') == 1",
        "L['x'].numpy() == 1",
        "L['x'].size()[0] == 1 or exec('1')",
        "(x := 1) == 1",
        "L['__import__(1)'] == 1",
        "math.__loader__ == 1",
        "L['x'].size(*[1]) == 1",
        "True; import os",
    ],
)
def test_a_guard_outside_of_the_grammar_is_refused(saved: dict[str, Path], tmp_path: Path, text: str) -> None:
    """Guards are executed as Python when the program is made a module."""
    document = model_json(saved["plain"])
    document["guards_code"] = [text]
    error = refusal(with_model(saved["plain"], tmp_path / "x.pt2", document))
    assert error.id == "inspecting:user:bad-pt2"
    assert "guard" in error.message or "expression" in error.message


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops._c10d_functional.all_reduce.default",
        "torch.ops.mylib.evil.default",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.add.Tensor.__class__",
        "torch.ops.higher_order.triton_kernel_wrapper_mutation",
        "torch.ops.higher_order.call_torchbind",
        "torch.load",
        "torch.ops",
        "_operator.methodcaller",
        "_operator.attrgetter",
        "os.system",
        "builtins.exec",
        "#evil:thing",
        "",
        3,
    ],
)
def test_an_operator_that_is_not_pytorchs_own_is_refused(saved: dict[str, Path], tmp_path: Path, target: Any) -> None:
    document = model_json(saved["plain"])
    document["graph_module"]["graph"]["nodes"][0]["target"] = target
    error = refusal(with_model(saved["plain"], tmp_path / "x.pt2", document))
    assert error.id in ("inspecting:user:operator", "inspecting:user:bad-pt2")
    if error.id == "inspecting:user:operator":
        assert str(target) in error.message


@pytest.mark.parametrize("key", ["as_custom_obj", "class_fqn"])
def test_objects_among_the_arguments_are_refused(saved: dict[str, Path], tmp_path: Path, key: str) -> None:
    document = model_json(saved["plain"])
    document["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {key: {"name": "x"}}
    assert refusal(with_model(saved["plain"], tmp_path / "x.pt2", document)).id == "inspecting:user:bad-pt2"


@pytest.mark.parametrize(
    "context",
    [
        '{"default_factory_module": "os", "default_factory_name": "system"}',
        '{"__enum__": true, "fqn": "os:system"}',
    ],
)
def test_inputs_packed_in_a_type_that_is_imported_are_refused(
    saved: dict[str, Path], tmp_path: Path, context: str
) -> None:
    document = model_json(saved["plain"])
    spec = [1, {"type": "collections.defaultdict", "context": context, "children_spec": []}]
    _first(document, "in_spec")["in_spec"] = json.dumps(spec)
    assert refusal(with_model(saved["plain"], tmp_path / "x.pt2", document)).id == "inspecting:user:bad-pt2"


@pytest.mark.parametrize(
    "data",
    [
        b"{nope",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"graph_module": {}, "graph_module": {}}',
        b"[" * 100_000,
        b'{"graph_module": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"graph_module": ' + b"9" * 10_000 + b"}",
    ],
)
def test_json_that_is_damaged_doubled_or_too_deep_is_refused(
    saved: dict[str, Path], tmp_path: Path, data: bytes
) -> None:
    path = rewritten(saved["plain"], tmp_path / "x.pt2", replace={"models/model.json": data})
    assert refusal(path).id == "inspecting:user:bad-pt2"


def test_brackets_inside_of_texts_do_not_count_as_depth() -> None:
    assert inspector_json.load(json.dumps({"a": "[" * 1000 + '"\\'}).encode())["a"].startswith("[[")


@pytest.mark.parametrize(
    "guard", ["L['x'].size()[0] <= 32", "not L['d']['b'][0].size()[1] == -1", "math.floor(L['x'].size()[0] / 2) != 7"]
)
def test_guards_as_torch_writes_them_are_in_the_grammar(guard: str) -> None:
    inspector_json.check_guard(guard)
