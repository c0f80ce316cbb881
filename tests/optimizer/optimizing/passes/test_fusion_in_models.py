"""The whole library over whole models: the examples, and transformers' own built from small configurations.

What occurs is counted from the models' module instances: a norm is one whether a residual add goes with it or not.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import kernels
from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from tests.optimizer.optimizing.passes.test_fusion_problems import PASSES, found_in
from tests.optimizer.optimizing.support import export
from tests.optimizer.optimizing.truth import assert_same

kernels.load()
EXAMPLES = Path(__file__).parents[4] / "examples"
NORMS = {"layer norm": ("layer_norm", "add_layer_norm"), "rms norm": ("rms_norm", "add_rms_norm")}
Counts = dict[str, int]


def instances(model: nn.Module, name: str) -> int:
    return sum(type(module).__name__ == name for module in model.modules())


def fused(model: nn.Module, *inputs: Any) -> tuple[Graph, Counts]:
    graph = Graph.from_exported(export(model, *inputs))
    with torch.no_grad():
        run_passes(graph, [(name, {}) for name in PASSES])
    found = found_in(graph)
    counts = {name: sum(found.pop(part, 0) for part in parts) for name, parts in NORMS.items()}
    return graph, {name: count for name, count in {**counts, **found}.items() if count}


# ---- examples --------------------------------------------------------------------------------------------------------

OF_EXAMPLE: Mapping[str, Callable[[nn.Module], Counts]] = {
    "bert_encoder": lambda m: {
        "layer norm": instances(m, "LayerNorm"),
        "flash_attention": instances(m, "SelfAttention"),
    },
    "dcn_v2": lambda m: {"embedding_lookup": instances(m, "Embedding"), "cross_layer": len(m.cross.layers)},
    "din": lambda m: {"din_attention": instances(m, "AttentionUnit")},
    "dlrm": lambda m: {"dot_interaction": 1},
    "llama_decoder": lambda m: {
        "rms norm": instances(m, "RMSNorm"),
        "flash_attention": instances(m, "Attention"),
        "rope": 2 * instances(m, "Attention"),
        "gated_activation": instances(m, "MLP"),
    },
    "mmoe": lambda m: {"gated_sum": len(m.gates)},
}


@pytest.mark.parametrize("name", OF_EXAMPLE)
def test_all_that_occurs_in_an_example_is_found(name: str) -> None:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, inputs = module.Model(*module.get_init_inputs()).eval(), module.get_inputs()
    graph, found = fused(model, *inputs)
    assert found == OF_EXAMPLE[name](model)
    assert_same(model, graph, tuple(module.get_inputs()), tolerance=1e-4)


# ---- transformers ----------------------------------------------------------------------------------------------------


class Called(nn.Module):
    """A model of transformers, by position and with the tensor that matters as its result."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        given = dict(zip(self.names, inputs, strict=True))
        result: torch.Tensor = self.model(**given, **({"use_cache": False} if "Vi" not in self.kind else {}))[0]
        return result

    @property
    def kind(self) -> str:
        return type(self.model).__name__


def ids() -> torch.Tensor:
    return torch.randint(1, 50, (2, 7))


def mask() -> torch.Tensor:
    return torch.tensor([[1] * 7, [1] * 4 + [0] * 3])


def bert(attention: str) -> tuple[nn.Module, Callable[[], tuple[torch.Tensor, ...]]]:
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24
    )
    model = transformers.BertModel._from_config(config, attn_implementation=attention)
    return Called(model, "input_ids", "attention_mask"), lambda: (ids(), mask())


def llama(attention: str) -> tuple[nn.Module, Callable[[], tuple[torch.Tensor, ...]]]:
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=24,
    )
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation=attention)
    return Called(model, "input_ids"), lambda: (ids(),)


def t5(attention: str) -> tuple[nn.Module, Callable[[], tuple[torch.Tensor, ...]]]:
    config = transformers.T5Config(
        vocab_size=50, d_model=16, d_kv=8, num_heads=2, d_ff=24, num_layers=2, feed_forward_proj="gated-gelu"
    )
    model = transformers.T5Model._from_config(config, attn_implementation=attention)
    return Called(model, "input_ids", "attention_mask", "decoder_input_ids"), lambda: (ids(), mask(), ids())


def vit(attention: str) -> tuple[nn.Module, Callable[[], tuple[torch.Tensor, ...]]]:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=16, patch_size=8
    )
    model = transformers.ViTModel._from_config(config, attn_implementation=attention)
    return Called(model, "pixel_values"), lambda: (torch.randn(2, 3, 16, 16),)


def whisper(attention: str) -> tuple[nn.Module, Callable[[], tuple[torch.Tensor, ...]]]:
    config = transformers.WhisperConfig(
        vocab_size=50,
        num_mel_bins=8,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_source_positions=10,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = transformers.WhisperModel._from_config(config, attn_implementation=attention)
    return Called(model, "input_features", "decoder_input_ids"), lambda: (torch.randn(2, 8, 20), ids())


OF_TRANSFORMERS: Mapping[str, Any] = {
    "bert": (bert, {"layer norm": ("LayerNorm", 1), "flash_attention": ("BertSelfAttention", 1)}),
    "llama": (
        llama,
        {
            "rms norm": ("LlamaRMSNorm", 1),
            "flash_attention": ("LlamaAttention", 1),
            "rope": ("LlamaAttention", 2),
            "gated_activation": ("LlamaMLP", 1),
        },
    ),
    "t5": (
        t5,
        {
            "rms norm": ("T5LayerNorm", 1),
            "flash_attention": ("T5Attention", 1),
            "gated_activation": ("T5DenseGatedActDense", 1),
        },
    ),
    "vit": (vit, {"layer norm": ("LayerNorm", 1), "flash_attention": ("ViTAttention", 1)}),
    "whisper": (whisper, {"layer norm": ("LayerNorm", 1), "flash_attention": ("WhisperAttention", 1)}),
}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_all_that_occurs_in_a_model_of_transformers_is_found(name: str, attention: str) -> None:
    torch.manual_seed(0)
    build, occurs = OF_TRANSFORMERS[name]
    model, inputs = build(attention)
    graph, found = fused(model, *inputs())
    assert found == {op: times * instances(model, kind) for op, (kind, times) in occurs.items()}
    assert_same(model, graph, inputs(), tolerance=1e-4)
