"""Small models with one cause each, and a healthy twin that computes the same without it.

Of each: bodies of `Model` (`__init__` and `forward`), what `get_inputs()` returns, and words of the guilty line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from optimizer.diagnosing.base import Evidence
from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from optimizer.result import Rewrite
from tests.optimizer.capturing.uploads import Answer, capture, module


@dataclass(frozen=True)
class Plant:
    rule: str
    sick: str
    twin: str
    inputs: str = "[torch.randn(16, 8)]"
    line: str = ""  # words of the line that is to blame
    extra: str = ""
    name: str = ""


def _init(*lines: str) -> str:
    return "def __init__(self):\n    super().__init__()\n" + "".join(f"    {line}\n" for line in lines)


def _forward(arguments: str, *lines: str) -> str:
    return f"def forward(self, {arguments}):\n" + "".join(f"    {line}\n" for line in lines)


HEADS = "self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))"
SPLIT = "q, k, v = (l(x).reshape(-1, 12, 2, 8).transpose(1, 2) for l in (self.q, self.k, self.v))"
SCORES = "scores = q @ k.transpose(-1, -2) / 8 ** 0.5"
SEQUENCE = "[torch.randn(4, 12, 16)]"
FUSED = "return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 12, 16)"
RMS_PARAMETERS = "self.w = nn.Parameter(torch.rand(8) + 1)"
LAYER_PARAMETERS = "self.w, self.b = nn.Parameter(torch.rand(8) + 1), nn.Parameter(torch.rand(8))"
TABLES = "self.tables = nn.ModuleList(nn.Embedding(20, 4) for _ in range({count}))"
LOOKUPS = "return torch.cat([table(ids[:, i]) for i, table in enumerate(self.tables)], 1)"
IDS = "[torch.randint(0, 20, (16, {count}))]"
SHORT, LONG = "torch.randint(1, 9, (16,))", "torch.randint(28, 33, (16,))"
POOLED = _init("self.l = nn.Linear(8, 8)") + _forward(
    "x, lengths",
    "mask = torch.arange(32) < lengths[:, None]",
    "return (torch.relu(self.l(x)) * mask[:, :, None]).sum(1)",
)
HIDDEN = _init("self.l = nn.Linear(8, 1)") + _forward(
    "x, hidden", "return torch.softmax(self.l(x)[:, :, 0].masked_fill(hidden, -1e9), 1)"
)

PLANTS = [
    Plant(
        "many_embeddings",
        _init(TABLES.format(count=12)) + _forward("ids", LOOKUPS),
        _init("self.table = nn.Embedding(240, 4)", "self.register_buffer('first', 20 * torch.arange(12))")
        + _forward("ids", "return self.table(ids + self.first).flatten(1)"),
        IDS.format(count=12),
        "table(ids[:, i])",
    ),
    Plant(
        "written_out_attention",
        _init(HEADS)
        + _forward("x", SPLIT, SCORES, "w = torch.softmax(scores, -1)", "return (w @ v).transpose(1, 2).flatten(2)"),
        _init(HEADS) + _forward("x", SPLIT, FUSED),
        SEQUENCE,
        "torch.softmax",
    ),
    Plant(
        "written_out_attention",
        _init(HEADS, "self.register_buffer('mask', torch.tril(torch.ones(12, 12)) == 0)")
        + _forward(
            "x",
            SPLIT,
            SCORES,
            "w = torch.softmax(scores.masked_fill(self.mask, float('-inf')), -1)",
            "return torch.matmul(nn.functional.dropout(w, 0.1, self.training), v).transpose(1, 2).flatten(2)",
        ),
        _init(HEADS) + _forward("x", SPLIT, FUSED.replace("q, k, v)", "q, k, v, is_causal=True)")),
        SEQUENCE,
        "torch.softmax",
        name="masked",
    ),
    Plant(
        "written_out_norms",
        _init(RMS_PARAMETERS)
        + _forward("x", "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w"),
        _init(RMS_PARAMETERS) + _forward("x", "return nn.functional.rms_norm(x, (8,), self.w, 1e-6)"),
        line="torch.rsqrt",
    ),
    Plant(
        "written_out_norms",
        _init(LAYER_PARAMETERS)
        + _forward(
            "x",
            "centred = x - x.mean(-1, keepdim=True)",
            "spread = (centred * centred).mean(-1, keepdim=True)",
            "return centred / torch.sqrt(spread + 1e-5) * self.w + self.b",
        ),
        _init(LAYER_PARAMETERS) + _forward("x", "return nn.functional.layer_norm(x, (8,), self.w, self.b)"),
        line="torch.sqrt",
        name="layer",
    ),
    Plant(
        "written_out_norms",
        _init(LAYER_PARAMETERS)
        + _forward(
            "x",
            "spread = x.std(-1, keepdim=True)",
            "return self.w * (x - x.mean(-1, keepdim=True)) / (spread + 1e-6) + self.b",
        ),
        _init(LAYER_PARAMETERS) + _forward("x", "return nn.functional.layer_norm(x, (8,), self.w, self.b)"),
        line="x.std(",
        name="by its standard deviation",
    ),
    Plant("padding_waste", POOLED, POOLED, f"[torch.randn(16, 32, 8), {SHORT}]", "torch.arange(32) <", name="lengths"),
    Plant(
        "padding_waste",
        HIDDEN,
        HIDDEN,
        "[torch.randn(16, 32, 8), torch.rand(16, 32) < 0.8]",
        "masked_fill",
        name="a mask",
    ),
    Plant(
        "float64_leftovers",
        _init("self.l = nn.Linear(8, 8)", "import numpy", "self.register_buffer('s', torch.from_numpy(numpy.ones(8)))")
        + _forward("x", "y = self.l(x) * self.s", "return torch.tanh(y).float()"),
        _init("self.l = nn.Linear(8, 8)", "self.register_buffer('s', torch.ones(8))")
        + _forward("x", "y = self.l(x) * self.s", "return torch.tanh(y).float()"),
        line="self.l(x) * self.s",
    ),
    Plant(
        "redundant_casts",
        _init("self.l = nn.Linear(8, 8)") + _forward("x", "return self.l(x.half().float())"),
        _init("self.l = nn.Linear(8, 8)") + _forward("x", "return self.l(x.float())"),
        line="x.half()",
    ),
    Plant(
        "redundant_casts",
        _init("self.w = nn.Parameter(torch.randn(8, 8).half())") + _forward("x", "return x @ self.w.float()"),
        _init("self.w = nn.Parameter(torch.randn(8, 8))") + _forward("x", "return x @ self.w.float()"),
        line="self.w.float()",
        name="of a weight",
    ),
    Plant(
        "redundant_permutes",
        _init("self.c = nn.Conv1d(6, 6, 1)")
        + _forward("x", "y = x.transpose(1, 2).contiguous()", "y = y.transpose(1, 2).contiguous()", "return self.c(y)"),
        _init("self.c = nn.Conv1d(6, 6, 1)") + _forward("x", "return self.c(x)"),
        "[torch.randn(16, 6, 8)]",
        "y.transpose(1, 2).contiguous()",
    ),
    Plant(
        "redundant_permutes",
        _init("self.w = nn.Parameter(torch.randn(8, 4))")
        + _forward("x", "return nn.functional.linear(x, self.w.t().contiguous())"),
        _init("self.w = nn.Parameter(torch.randn(4, 8))") + _forward("x", "return nn.functional.linear(x, self.w)"),
        line="self.w.t()",
        name="of a weight",
    ),
    Plant(
        "user_broadcast",
        _init("self.l = nn.Linear(16, 4)")
        + _forward("u, x", "u = u[:, None].expand(-1, 12, -1)", "return self.l(torch.cat([u, x], -1))"),
        _init("self.u, self.x = nn.Linear(8, 4), nn.Linear(8, 4)")
        + _forward("u, x", "return self.u(u)[:, None] + self.x(x)"),
        "[torch.randn(16, 8), torch.randn(16, 12, 8)]",
        "expand(-1, 12, -1)",
    ),
    Plant(
        "values_as_numbers",
        _forward("x, keep", "return x[keep].sum(0)"),
        _forward("x, keep", "return torch.where(keep[:, None], x, 0.0).sum(0)"),
        "[torch.randn(16, 8), torch.rand(16) < 0.5]",
        "x[keep]",
    ),
]
# what makes a twin of a model that is the same: longer lengths, fuller masks
OTHER_INPUTS = {
    "lengths": f"[torch.randn(16, 32, 8), {LONG}]",
    "a mask": "[torch.randn(16, 32, 8), torch.rand(16, 32) < 0.1]",
}
IDENTIFIED = [f"{plant.rule}: {plant.name}" if plant.name else plant.rule for plant in PLANTS]


def captured(folder: Path, body: str, inputs: str, **more: Any) -> Answer:
    folder.mkdir(parents=True, exist_ok=True)
    return capture(module(folder, body, inputs=inputs), folder / "scratch", **more)


def rewrites(answer: Answer) -> list[Rewrite]:
    """What every pass did, as a run of its own finds it."""
    exported = torch.export.load(str(answer.files["captured.pt2"]))
    with torch.no_grad():
        return run_passes(Graph.from_exported(exported))


def evidence(answer: Answer, **more: Any) -> Evidence:
    given = {"profile": None, "rewrites": (), "dynamic_batch": True} | more
    return Evidence(outline=answer.outline, workload=answer.workload, notes=answer.inspection["notes"], **given)
