"""Modules as uploads: how they are built, whose weights they hold, what is noted about them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from optimizer.capturing.torch_module import load_module
from optimizer.errors import FuseworksError
from tests.optimizer.capturing.uploads import capture, line_of, module, zipped

LINEAR = """
def __init__(self, width=4, scale=1.0):
    super().__init__()
    self.l = nn.Linear(8, width)
    self.table = torch.randn(width)
    self.register_buffer("shift", torch.randn(width), persistent=False)
    self.scale = scale

def forward(self, x):
    return self.l(x) * self.scale + self.shift + self.table
"""


@pytest.mark.parametrize(
    ("given", "width", "scale"),
    [
        ("[5]", 5, 1.0),
        ("[5, 2.0]", 5, 2.0),
        ("[[5], {'scale': 3.0}]", 5, 3.0),
        ("{'width': 6}", 6, 1.0),
        ("[]", 4, 1.0),
    ],
)
def test_init_inputs_may_be_a_list_a_mix_or_a_dict(given: str, width: int, scale: float, tmp_path: Path) -> None:
    path = module(tmp_path, LINEAR, extra=f"def get_init_inputs():\n    return {given}\n")
    built = load_module(path, "py", tmp_path, seed=1).module
    assert (built.l.out_features, built.scale, built.training) == (width, scale, False)


def test_the_baseline_builds_exactly_the_captured_model(tmp_path: Path) -> None:
    path = module(tmp_path, LINEAR)
    answer = capture(path, tmp_path / "s")
    program = torch.export.load(str(answer.files["captured.pt2"]))
    saved = load_file(str(answer.files["weights.safetensors"]))
    assert set(saved) == {"l.weight", "l.bias", "shift"}
    saved["shift"] += 1.0
    save_file(saved, str(tmp_path / "other.safetensors"))
    x = torch.randn(3, 8)
    same = load_module(path, "py", tmp_path, seed=7, weights=answer.files["weights.safetensors"]).module
    other = load_module(path, "py", tmp_path, seed=7, weights=tmp_path / "other.safetensors").module
    with torch.no_grad():
        assert torch.equal(program.module()(x), same(x))
        assert torch.allclose(other(x) - same(x), torch.ones(3, 4), atol=1e-5)


def test_tied_weights_are_stored_once_and_loaded(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.table, self.head = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
    self.head.weight = self.table.weight

def forward(self, ids):
    return self.head(self.table(ids))
"""
    path = module(tmp_path, body, inputs="[torch.randint(0, 20, (16,))]")
    answer = capture(path, tmp_path / "s")
    assert set(load_file(str(answer.files["weights.safetensors"]))) == {"table.weight"}
    assert answer.inspection["parameters"] == 160 and answer.inspection["parameter_bytes"] == 640
    load_module(path, "py", tmp_path, seed=8, weights=answer.files["weights.safetensors"])


def test_a_zips_own_weights_and_modules_are_used(tmp_path: Path) -> None:
    (tmp_path / "tower_of_test.py").write_text("WIDTH = 3\n")
    body = LINEAR.replace("width=4", "width=WIDTH")
    path = module(tmp_path, body)
    path.write_text("from tower_of_test import WIDTH\n" + path.read_text())
    weights = tmp_path / "w.safetensors"
    save_file({"l.weight": torch.zeros(3, 8), "l.bias": torch.arange(3.0)}, str(weights))
    upload = zipped(
        tmp_path,
        {
            "ranker/model.py": path,
            "ranker/tower_of_test.py": tmp_path / "tower_of_test.py",
            "ranker/weights.safetensors": weights,
        },
    )
    answer = capture(upload, tmp_path / "s")
    saved = load_file(str(answer.files["weights.safetensors"]))
    assert torch.equal(saved["l.bias"], torch.arange(3.0)) and saved["shift"].shape == (3,)


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    save_file({"l.weight": torch.zeros(4, 9), "m.bias": torch.zeros(4)}, str(weights))
    upload = zipped(tmp_path, {"model.py": module(tmp_path, LINEAR), "weights.safetensors": weights})
    with pytest.raises(FuseworksError) as caught:
        capture(upload, tmp_path / "s")
    assert caught.value.id == "capturing:user:weights-mismatch"
    assert "Missing: l.bias. Unexpected: m.bias." in caught.value.message
    assert "l.weight is [4, 8] in the module and [4, 9] in the file" in caught.value.message


def test_weights_that_are_no_safetensors_are_refused(tmp_path: Path) -> None:
    upload = zipped(tmp_path, {"model.py": module(tmp_path, LINEAR), "weights.safetensors": b"\x80\x04pickle"})
    with pytest.raises(FuseworksError) as caught:
        capture(upload, tmp_path / "s")
    assert (caught.value.id, caught.value.place) == ("capturing:user:weights-unreadable", "weights.safetensors")


def test_a_line_in_a_module_beside_model_py_is_named(tmp_path: Path) -> None:
    helper = "def twice(x):\n    return x * [2][1]\n"
    path = module(tmp_path, "def forward(self, x):\n    return twice(x)")
    path.write_text("from layers_of_test import twice\n" + path.read_text())
    with pytest.raises(FuseworksError) as caught:
        capture(zipped(tmp_path, {"model.py": path, "layers_of_test.py": helper}), tmp_path / "s")
    assert caught.value.place == "layers_of_test.py:2"


def test_a_zip_without_model_py_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FuseworksError) as caught:
        capture(zipped(tmp_path, {"readme.txt": "hello"}), tmp_path / "s")
    assert caught.value.id == "capturing:user:bad-zip" and "`model.py`" in caught.value.remedy


def test_outputs_are_flattened_and_named_by_their_keys(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    return {'score': x.sum(1), 'aux': [x, (x > 0)]}"
    answer = capture(module(tmp_path, body), tmp_path / "s")
    assert answer.inspection["outputs"] == [
        {"name": "score", "dtype": "float32", "shape": ["batch"]},
        {"name": "aux.0", "dtype": "float32", "shape": ["batch", 8]},
        {"name": "aux.1", "dtype": "bool", "shape": ["batch", 8]},
    ]
    program = torch.export.load(str(answer.files["captured.pt2"]))
    out = program.module()(torch.ones(3, 8))
    assert isinstance(out, tuple) and [tuple(o.shape) for o in out] == [(3,), (3, 8), (3, 8)]


@pytest.mark.parametrize(
    ("code", "operation"),
    [
        ("torch.randn_like(x) + x", "aten.randn_like"),
        ("nn.functional.dropout(x, 0.5)", "aten.dropout"),
        ("torch.bernoulli(x.sigmoid())", "aten.bernoulli"),
    ],
)
def test_random_numbers_in_inference_are_noted_with_their_line(code: str, operation: str, tmp_path: Path) -> None:
    path = module(tmp_path, f"def forward(self, x):\n    return {code}")
    (note,) = capture(path, tmp_path / "s").inspection["notes"]
    assert note == f"Draws random numbers in inference: {operation} (model.py:{line_of(path, code)})"


def test_dropout_and_attention_out_of_training_draw_nothing(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.d, self.r = nn.Dropout(0.5), nn.RReLU()

def forward(self, x):
    q = x[:, None]
    return self.r(self.d(nn.functional.scaled_dot_product_attention(q, q, q)))
"""
    answer = capture(module(tmp_path, body), tmp_path / "s")
    assert answer.inspection["notes"] == []


def test_an_input_that_is_written_is_noted(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    x[:, 0] = 1.0\n    return x * 2")
    (note,) = capture(path, tmp_path / "s").inspection["notes"]
    assert note == f"The model writes into its input 'x' (model.py:{line_of(path, 'x[:, 0] = 1.0')})"


def test_nan_at_the_samples_is_noted(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return (x * 0) / 0, x")
    (note,) = capture(path, tmp_path / "s").inspection["notes"]
    assert note == "Output 'out0' holds NaN at the model's own sample inputs"


def test_a_size_that_depends_on_values_is_noted(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return x[x[:, 0] > 0]")
    notes = capture(path, tmp_path / "s").inspection["notes"]
    assert any("size of output 'out0' depends on values" in note for note in notes)


def test_operations_and_parameters_are_counted(tmp_path: Path) -> None:
    inspection = capture(module(tmp_path, LINEAR), tmp_path / "s").inspection
    assert inspection["operations"] == {"aten.add": 2, "aten.linear": 1, "aten.mul": 1}
    assert inspection["parameters"] == 8 * 4 + 4
    assert inspection["parameter_bytes"] == (8 * 4 + 4 + 4 + 4) * 4  # and two tensors of four that are no parameters


def test_the_graph_stays_undecomposed_even_under_a_no_grad_of_the_users(tmp_path: Path) -> None:
    body = """
@torch.no_grad()
def forward(self, x):
    with torch.inference_mode(False), torch.no_grad():
        q = nn.functional.gelu(x)[:, None]
        return nn.functional.scaled_dot_product_attention(q, q, q)
"""
    operations = capture(module(tmp_path, body), tmp_path / "s").inspection["operations"]
    assert operations["aten.gelu"] == 1 and operations["aten.scaled_dot_product_attention"] == 1


def test_plain_values_among_the_inputs_are_constants_for_capture_and_baseline_alike(tmp_path: Path) -> None:
    code = """
def forward(self, scale, x, y=None, mode="none", *, unused=1):
    shifted = x * scale if mode == "plus" else x - scale
    return shifted if y is None else shifted + y
"""
    path = module(tmp_path, code, inputs="[2.5, torch.randn(16, 8), None, 'plus']")
    answer = capture(path, tmp_path / "s")
    program = torch.export.load(str(answer.files["captured.pt2"]))
    assert [spec.name for spec in answer.workload.inputs] == ["x"]
    assert answer.workload.inputs[0].shape == ["batch", 8], "constants do not stand in the way of the batch"
    assert [note for note in answer.inspection["notes"] if "constant" in note] == [
        "Input 'scale' is 2.5, no tensor: a constant of the graph",
        "Input 'y' is None, no tensor: a constant of the graph",
        "Input 'mode' is 'plus', no tensor: a constant of the graph",
    ]
    same = load_module(path, "py", tmp_path, seed=7, weights=answer.files["weights.safetensors"]).module
    x = torch.randn(3, 8)
    assert torch.equal(program.module()(x), x * 2.5) and torch.equal(same(x), x * 2.5)


@pytest.mark.parametrize("inputs", ["[torch.ones(2, 8)]", "[torch.ones(2, 8), 3]"])
def test_a_model_without_weights_is_built_anew(inputs: str, tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x, k=3):\n    return x * k", inputs=inputs)
    answer = capture(path, tmp_path / "s")
    same = load_module(path, "py", tmp_path, seed=7, weights=answer.files["weights.safetensors"]).module
    assert torch.equal(same(torch.ones(2, 8)), torch.full((2, 8), 3.0))


def test_a_plain_value_that_changes_between_calls_is_the_first_ones(tmp_path: Path) -> None:
    code = "def forward(self, x, scale):\n    return x * scale"
    extra = "import itertools\ncount = itertools.count(1)\n"
    path = module(tmp_path, code, inputs="[torch.randn(16, 8), next(count)]", extra=extra)
    answer = capture(path, tmp_path / "s")
    program = torch.export.load(str(answer.files["captured.pt2"]))
    assert torch.equal(program.module()(torch.ones(2, 8)), torch.ones(2, 8)), "the first call's value holds"


@pytest.mark.parametrize("mask", ["torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)", "torch.zeros(6, 6)"])
def test_a_masked_transformer_is_captured_layer_by_layer(mask: str, tmp_path: Path) -> None:
    """torch's own look at the mask's values would make it one opaque operation a layer."""
    code = f"""
def __init__(self):
    super().__init__()
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)
    self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    self.register_buffer("mask", {mask})

def forward(self, x):
    return self.encoder(x, mask=self.mask)
"""
    path = module(tmp_path, code, inputs="[torch.randn(3, 6, 8)]")
    answer = capture(path, tmp_path / "s")
    program = torch.export.load(str(answer.files["captured.pt2"]))
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert names.count("aten.scaled_dot_product_attention.default") == 2
    assert not any("transformer_encoder_layer" in name for name in names)
    same = load_module(path, "py", tmp_path, seed=7, weights=answer.files["weights.safetensors"]).module
    x = torch.randn(5, 6, 8)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), same(x))


def test_lazy_modules_are_built_by_their_first_call(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.l = nn.LazyLinear(4)

def forward(self, x):
    return self.l(x)
"""
    answer = capture(module(tmp_path, body), tmp_path / "s")
    assert answer.inspection["parameters"] == 36
