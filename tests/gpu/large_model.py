"""A model of the shape of Llama 3 8B with random weights, which answers the smoke prompt.

vLLM fills the weights itself (`load-format: dummy`), so the folder is small. Its tokens beyond
those of the tiny model are texts with the answer to the smoke prompt in them: the run does not fail
for what random weights answer. Correct answers are the tiny model's part.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

ANSWER = "204"
VOCABULARY = 128256
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
PARAMETERS = 8_030_261_248
RECIPE = """\
description: The shape of Llama 3 8B with random weights
source: made by sparkfleet's tests
vllm_model: {name}
vllm_served_name: {name}
vllm_ready_timeout: 6m
vllm_args:
  load-format: dummy
  max-model-len: 8192
  gpu-memory-utilization: 0.85
vllm_env:
  HF_HUB_OFFLINE: 1
  VLLM_NO_USAGE_STATS: 1
ray_object_store_memory: 100MiB
vllm_smoke_tokens: 16
smoke:
  - {{ask: "12*17", expect: "{answer}"}}
"""
NAME = "random-8b"
TENSOR = "lm_head.weight"


def write_large_model(folder: Path, tiny: Path) -> Path:
    """Write the model next to its recipe below `folder`, from the tiny one; return the recipe."""
    model = folder / NAME
    model.mkdir()
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        shutil.copy(tiny / name, model)
    tokenizer = json.loads((tiny / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    words.update({f"{ANSWER}x{number}": number for number in range(len(words), VOCABULARY)})
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    (model / "config.json").write_text(json.dumps(CONFIG))
    write_empty_weights(model / "model.safetensors")
    recipe = folder / f"{NAME}.yml"
    recipe.write_text(RECIPE.format(name=NAME, answer=ANSWER))
    return recipe


def write_empty_weights(path: Path) -> None:
    """Write the smallest file that counts as weights."""
    header = json.dumps({TENSOR: {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
