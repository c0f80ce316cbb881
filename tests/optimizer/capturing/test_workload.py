"""The workload is filled in from what the user gave, from the samples and from the graph."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch

from optimizer.errors import FuseworksError
from tests.optimizer.capturing.uploads import capture, line_of, module, zipped

TABLES = """
def __init__(self):
    super().__init__()
    self.tables = nn.ModuleList(nn.Embedding(rows, 4) for rows in (50, 1000, 7))

def forward(self, ids):
    return torch.cat([table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
"""
IDS = "[torch.randint(0, 7, (16, 3))]"


def test_each_column_stays_below_the_rows_of_its_own_table(tmp_path: Path) -> None:
    answer = capture(module(tmp_path, TABLES, inputs=IDS), tmp_path / "s")
    assert answer.values == {"ids": {"below": [50, 1000, 7]}}
    assert answer.inspection["id_rows"] == {"ids": [50, 1000, 7]}


def test_columns_are_followed_through_moves(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.small, self.large = nn.Embedding(9, 4), nn.Embedding(300, 4)

def forward(self, ids):
    left, right = ids.t().reshape(4, -1).to(torch.int64).flip(0).split([1, 3])
    pair = torch.stack([right[0], right[2]], 1).unsqueeze(-1)
    return self.small(left).sum((0, 2)) + self.large(pair).sum((1, 2, 3))
"""
    # flipped: row 0 of the split is column 3; right holds columns 2, 1, 0, of which 2 and 0 are used
    inputs = "[torch.randint(0, 5, (16, 4), dtype=torch.int32).clamp_(max=4)]"
    answer = capture(module(tmp_path, body, inputs=inputs), tmp_path / "s")
    assert answer.values["ids"]["below"] == [300, 5, 300, 9]


def test_a_shared_table_with_offsets_gives_each_column_its_own_rows(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.table = nn.Embedding(60, 4)
    self.register_buffer("offsets", torch.tensor([0, 10, 30]))

def forward(self, ids):
    return self.table(ids + self.offsets).flatten(1)
"""
    answer = capture(module(tmp_path, body, inputs=IDS), tmp_path / "s")
    assert answer.values["ids"] == {"below": [10, 20, 30]}


def test_bags_indexing_and_one_hot_bound_ids_too(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.bag = nn.EmbeddingBag(40, 4)
    self.weight = nn.Parameter(torch.randn(30, 4))

def forward(self, bag, row, kind, picked):
    hot = nn.functional.one_hot(kind, 6).float()
    return self.bag(bag).sum(1) + self.weight[row].sum(1) + hot.sum(1) + self.weight.index_select(0, picked).sum(1)
"""
    inputs = "[torch.ones(16, 5).long(), torch.ones(16).long(), torch.ones(16).long(), torch.ones(16).long()]"
    answer = capture(module(tmp_path, body, inputs=inputs), tmp_path / "s")
    assert {name: v["below"] for name, v in answer.values.items()} == {"bag": 40, "row": 30, "kind": 6, "picked": 30}


def test_ids_that_are_hashed_keep_the_samples_range(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.table = nn.Embedding(10, 4)

def forward(self, ids):
    return self.table(ids % 10)
"""
    inputs = "[torch.arange(100, 116)]"
    answer = capture(module(tmp_path, body, inputs=inputs), tmp_path / "s")
    assert answer.values["ids"] == {"from": 100, "below": 116}


def test_a_position_from_a_length_starts_at_one(tmp_path: Path) -> None:
    body = "def forward(self, x, length):\n    return x.gather(1, (length - 1).unsqueeze(1)).squeeze(1)"
    inputs = "[torch.randn(16, 12), torch.randint(3, 9, (16,))]"
    answer = capture(module(tmp_path, body, inputs=inputs), tmp_path / "s")
    assert answer.values["length"] == {"from": 1, "below": 13}


@pytest.mark.parametrize(
    ("sample", "values"),
    [
        ("torch.linspace(-1, 5, 101)", {"normal": (2.0, 1.74929)}),  # 6 * sqrt((101 + 1) / (12 * (101 - 1)))
        ("torch.linspace(0, 1, 101)", {"uniform": (0.0, 1.0)}),
        ("torch.full((101,), 3.5)", {"constant": 3.5}),
        ("torch.arange(100) % 4 == 0", {"bernoulli": 0.25}),
        ("(torch.arange(100) % 5 == 0).float()", {"bernoulli": 0.2}),
        ("torch.arange(3, 30)", {"from": 3, "below": 30}),
        ("torch.arange(-2, 30)", {"from": -2, "below": 30}),
    ],
)
def test_values_follow_the_samples(sample: str, values: dict[str, object], tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    return x * 2", inputs=f"[{sample}]")
    assert capture(path, tmp_path / "s").values["x"] == values


def test_what_the_user_says_is_kept_and_completed(tmp_path: Path) -> None:
    extra = """
    def get_workloads():
        ids = {"name": "ids", "dtype": "int64", "shape": ["batch", 3], "values": {"zipf": 1.2}}
        return [{"name": "night", "inputs": [ids], "dims": {"batch": {"serve": [32, 4], "max": 64}},
                 "limits": {"latency_ms": 5}}, {"name": "unused"}]
    """
    workload = capture(module(tmp_path, TABLES, inputs=IDS, extra=extra), tmp_path / "s").workload
    assert (workload.name, workload.limits.latency_ms, workload.dims["batch"].serve) == ("night", 5, [32, 4])
    (values,) = [i.values for i in workload.inputs]
    assert values is not None and (values.zipf, values.below) == (1.2, [50, 1000, 7])


def test_the_callers_workload_goes_before_the_files_and_the_modules(tmp_path: Path) -> None:
    def named(name: str) -> dict[str, object]:
        return {"name": name, "inputs": [{"name": "x", "dtype": "float32", "shape": [16, 8]}]}

    extra = f"def get_workloads():\n    return {named('module')}\n"
    path = module(tmp_path, "def forward(self, x):\n    return x", extra=extra)
    assert capture(path, tmp_path / "a").workload.name == "module"
    yaml = "name: file\ninputs: [{name: x, dtype: float32, shape: [16, 8]}]\n"
    upload = zipped(tmp_path, {"model.py": path, "workload.yaml": yaml})
    assert capture(upload, tmp_path / "b").workload.name == "file"
    assert capture(upload, tmp_path / "c", workload=named("caller")).workload.name == "caller"


def test_names_that_the_user_gives_become_those_of_the_graph(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, *xs):\n    return torch.add(*xs)", inputs="[torch.ones(4, 2)] * 2")
    assert [i.name for i in capture(path, tmp_path / "a").workload.inputs] == ["xs0", "xs1"]
    inputs = [{"name": name, "dtype": "float32", "shape": ["batch", 2]} for name in ("add", "right")]
    asked = {"inputs": inputs, "dims": {"batch": {"serve": [4], "max": 8}}}
    answer = capture(path, tmp_path / "b", workload=asked)
    program = torch.export.load(str(answer.files["captured.pt2"]))
    assert list(program.graph_signature.user_inputs) == ["add", "right"]
    assert torch.equal(program.module()(torch.ones(3, 2), torch.ones(3, 2)), torch.full((3, 2), 2.0))


MISFITS = [
    ([{"name": "ids", "dtype": "int32", "shape": ["batch", 3]}], "is int32 there and int64"),
    ([{"name": "ids", "dtype": "int64", "shape": ["batch"]}], "has 1 dimensions there and 2"),
    ([{"name": "ids", "dtype": "int64", "shape": ["batch", 4]}], "has size 4 in dimension 1 there and 3"),
    (
        [{"name": "ids", "dtype": "int64", "shape": ["batch", "batch"]}],
        "has size 3 for 'batch', but input 'ids' has 16",
    ),
    ([{"name": n, "dtype": "int64", "shape": ["batch", 3]} for n in "ab"], "it has 2 inputs (a, b)"),
    (
        [{"name": "ids", "dtype": "int64", "shape": ["batch", 3], "values": {"below": 1000}}],
        "column 0 of input 'ids' goes up to 999, but the table that it indexes has 50 rows",
    ),
    (
        [{"name": "ids", "dtype": "int64", "shape": ["batch", 3], "values": {"below": [50, 7]}}],
        "has 3 columns and 2 bounds",
    ),
]


@pytest.mark.parametrize(("inputs", "text"), MISFITS)
def test_a_workload_that_does_not_fit_the_model_is_refused(inputs: object, text: str, tmp_path: Path) -> None:
    asked = {"inputs": inputs, "dims": {"batch": {"serve": [16], "max": 64}}}
    with pytest.raises(FuseworksError) as caught:
        capture(module(tmp_path, TABLES, inputs=IDS), tmp_path / "s", workload=asked)
    assert caught.value.id == "capturing:user:workload-mismatch"
    assert text in caught.value.message


def test_inputs_that_cannot_be_drawn_are_refused_with_the_line_that_fails(tmp_path: Path) -> None:
    body = """
def __init__(self):
    super().__init__()
    self.bag = nn.EmbeddingBag(50, 4)

def forward(self, values, offsets):
    return self.bag(values, offsets)
"""
    inputs = "[torch.randint(0, 50, (20,)), torch.tensor([0, 3, 5, 9, 9, 15])]"
    path = module(tmp_path, body, inputs=inputs)
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "s")
    at = f"model.py:{line_of(path, 'return self.bag(values')}"
    assert (caught.value.id, caught.value.place) == ("capturing:user:drawn-inputs", at)
    assert "offsets[0] has to be 0" in caught.value.message and "bags" in caught.value.remedy


def test_inputs_in_another_order_than_forwards_are_refused(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, a, b):\n    return a - b", inputs="[torch.ones(2), torch.ones(2)]")
    asked = {"inputs": [{"name": n, "dtype": "float32", "shape": [2]} for n in "ba"]}
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "s", workload=asked)
    assert "its order is b, a, that of `forward` is a, b" in caught.value.message


def test_a_misspelt_field_of_get_workloads_is_named_with_its_line(tmp_path: Path) -> None:
    extra = "def get_workloads():\n    return {'inputs': [{'name': 'x', 'dtyp': 'float32', 'shape': [16, 8]}]}\n"
    path = module(tmp_path, "def forward(self, x):\n    return x", extra=extra)
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "s")
    assert caught.value.id == "capturing:user:bad-workload"
    assert caught.value.place == f"model.py:{line_of(path, 'def get_workloads')}"
    assert "inputs.0.dtyp" in caught.value.message


def test_yaml_that_is_not_yaml_is_refused(tmp_path: Path) -> None:
    path = module(tmp_path, textwrap.dedent("def forward(self, x):\n    return x"))
    upload = zipped(tmp_path, {"model.py": path, "workload.yaml": "inputs: [\n"})
    with pytest.raises(FuseworksError) as caught:
        capture(upload, tmp_path / "s")
    assert (caught.value.id, caught.value.place) == ("capturing:user:bad-workload", "workload.yaml")
