"""Configs of real models, each with its source in the file, and generated ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparkfleet.fit.config import Architecture, parse_model_config
from sparkfleet.fit.layers import FULL, SLIDING

CONFIGS = Path(__file__).parent / "configs"
GIB = 1 << 30
DENSE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "num_hidden_layers": 4,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
FIVE_TO_ONE = {  # 60 layers of which every sixth is full, all of 16 KV heads of 256
    "dtype": "bfloat16",
    "num_hidden_layers": 60,
    "layer_types": ([SLIDING] * 5 + [FULL]) * 10,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "sliding_window": 1024,
}


def config(name: str) -> str:
    """Return the text of a config in `tests/configs`."""
    return (CONFIGS / f"{name}.json").read_text()


def shape(name: str) -> Architecture:
    """Return the shape in a config in `tests/configs`."""
    return parse_model_config(config(name))


def made(tree: dict[str, Any] = DENSE, **fields: Any) -> Architecture:
    """Return the shape of a made config, with `fields` over it."""
    return parse_model_config(json.dumps({**tree, **fields}))
