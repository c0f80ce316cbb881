"""The capture as the coordinator calls it: in a child, confined where this machine can confine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from optimizer.capturing.inspector import inspect_upload
from optimizer.capturing.torch_module import load_module
from optimizer.result import Inspection
from optimizer.sandbox import ChildFailed, ChildSpec, start
from optimizer.spec import Workload
from tests.optimizer.capturing.uploads import line_of, module

BODY = """
def __init__(self):
    super().__init__()
    self.table, self.l = nn.Embedding(50, 8), nn.Linear(8, 4)

def forward(self, ids):
    return torch.sigmoid(self.l(self.table(ids).mean(1)))
"""
IDS = "[torch.randint(0, 40, (16, 3))]"


@pytest.mark.parametrize("trusted", [True, False])
def test_a_child_hands_over_graph_weights_workload_and_inspection(trusted: bool, tmp_path: Path) -> None:
    path = module(tmp_path, BODY, inputs=IDS)
    out = tmp_path / "out"
    with start(ChildSpec(name="capture", inputs={"upload": path}, trusted=trusted)) as child:
        reply = child.call(
            "capturing.capture",
            timeout_s=120,
            collect=out,
            upload=child.path("upload"),
            format=inspect_upload(path).format,
            workload=None,
            seed=3,
        )
    workload = Workload.model_validate(reply.fields["workload"])
    assert workload.inputs[0].shape == ["batch", 3] and workload.dims["batch"].serve == [16]
    inspection = Inspection.model_validate(
        {**reply.fields["inspection"], "format": "py", "sha256": "0", "size_bytes": 1}
    )
    assert inspection.parameters == 50 * 8 + 8 * 4 + 4 and inspection.operations["aten.linear"] == 1
    assert sorted(p.name for p in out.iterdir()) == ["captured.pt2", "weights.safetensors"]
    built = load_module(path, "py", tmp_path, seed=9, weights=out / "weights.safetensors").module
    ids = torch.randint(0, 50, (5, 3))
    with torch.no_grad():
        assert torch.equal(torch.export.load(str(out / "captured.pt2")).module()(ids), built(ids))


def test_a_failure_crosses_the_wire_with_its_line_and_remedy(tmp_path: Path) -> None:
    path = module(tmp_path, "def forward(self, x):\n    if x.sum() > 0:\n        return x\n    return -x")
    with start(ChildSpec(name="capture", inputs={"upload": path})) as child, pytest.raises(ChildFailed) as caught:
        child.call(
            "capturing.capture", timeout_s=120, upload=child.path("upload"), format="py", seed=3, shown="ranker.py"
        )
    error = caught.value
    assert error.id == "capturing:user:data-dependent-branch"
    assert error.place == f"ranker.py:{line_of(path, 'if x.sum() > 0')}"
    assert "torch.where" in error.remedy


def test_what_a_module_prints_does_not_disturb_the_protocol(tmp_path: Path) -> None:
    path = module(tmp_path, BODY, inputs=IDS)
    path.write_text(f"print('FW01' * 1000)\n{path.read_text()}")
    with start(ChildSpec(name="capture", inputs={"upload": path}, trusted=True)) as child:
        upload = child.path("upload")
        reply = child.call("capturing.capture", timeout_s=120, collect=tmp_path, upload=upload, format="py", seed=3)
    assert reply.fields["inspection"]["dynamic"] == ["batch"]
