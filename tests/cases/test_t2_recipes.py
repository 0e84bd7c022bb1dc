"""T2: recipes of public reports, with what `recipes.validate` says about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.launch.deployment.environment import build_rank_environment
from tests.commandline import run_command
from tests.engines import settings
from tests.judged import Recipes


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _recipe(model: str, **args: Any) -> dict[str, Any]:
    return {"vllm_model": model, "vllm_args": {key.replace("_", "-"): args[key] for key in args}}


@pytest.mark.parametrize(
    ("backend", "expected"),
    [("B12X_MLA_SPARSE", "error"), ("B12X", "error"), ("FLASHINFER_MLA_SPARSE", None)],
)
def test_t2_27_a_backend_that_this_vllm_lacks_is_refused_before_the_start(
    recipes: Recipes, backend: str, expected: str | None
) -> None:
    recipe = _recipe("deepseek-ai/DeepSeek-V4-Flash-0731", attention_backend=backend)
    recipe["engine_image"] = "vllm/vllm-openai:v0.29.0-cu130"
    assert recipes.found(recipe).get("value") == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"enable_prefix_caching": False, "mamba_block_size": 256}, "error"),
        ({"mamba_block_size": 256}, "warning"),  # since 0.26 it is enabled by default
        ({"enable_prefix_caching": True, "mamba_block_size": 256}, None),
        ({"enable_prefix_caching": False, "block_size": 256}, None),
    ],
)
def test_t2_40_a_mamba_block_size_needs_prefix_caching(
    recipes: Recipes, args: dict[str, Any], expected: str | None
) -> None:
    assert recipes.found(_recipe("Qwen/Qwen3.6-27B", **args)).get("mamba_block") == expected


@pytest.mark.parametrize(
    ("model", "loader", "expected"),
    [
        ("google/gemma-4-26B-A4B-it", "fastsafetensors", "info"),
        ("google/gemma-4-26B-A4B-it", "safetensors", None),
        ("Qwen/Qwen3.6-27B", "fastsafetensors", None),
    ],
)
def test_t2_54_gemma_4_with_fastsafetensors_gets_advice(
    recipes: Recipes, model: str, loader: str, expected: str | None
) -> None:
    assert recipes.found(_recipe(model, load_format=loader)).get("fast_loader") == expected


@pytest.mark.parametrize(
    ("model", "own", "expected"),
    [
        ("openai/gpt-oss-120b", {}, "info"),
        ("openai/gpt-oss-20b", {"weights_offline": True}, "warning"),
        ("someone/oss-finetune", {"checkpoint": {"architecture": "GptOssForCausalLM"}}, "info"),
        ("openai/gpt-oss-120b", {"weights_files": ["~/o200k_base.tiktoken"]}, None),
        ("openai/gpt-oss-120b", {"vllm_env": {"TIKTOKEN_ENCODINGS_BASE": "/models"}}, None),
        ("openai/gpt-oss-120b", {"weights_files": ["~/chat.jinja"]}, "info"),
        ("Qwen/Qwen3-30B-A3B", {"weights_offline": True}, None),
    ],
)
def test_t2_21_the_vocabulary_of_gpt_oss_is_asked_for_before_the_start(
    recipes: Recipes, model: str, own: dict[str, Any], expected: str | None
) -> None:
    assert recipes.found({**_recipe(model), **own}).get("vocabulary") == expected


@pytest.mark.parametrize(
    ("files", "value"),
    [
        (["~/o200k_base.tiktoken"], "/models"),
        (["someone/encodings@main:encodings/o200k_base.tiktoken"], "/models/encodings"),
        (["~/chat.jinja"], None),
        ([], None),
    ],
)
def test_t2_21_a_staged_vocabulary_is_found_by_every_rank(
    files: list[str], value: str | None
) -> None:
    made = build_rank_environment(
        settings(weights_files=files), (), cluster="default", hf_home="/models"
    )
    found = {variable.name: variable.value for variable in made}
    assert found.get("TIKTOKEN_ENCODINGS_BASE") == value


def test_t2_21_a_folder_of_ones_own_counts() -> None:
    own = settings(
        weights_files=["~/o200k_base.tiktoken"], vllm_env={"TIKTOKEN_ENCODINGS_BASE": "/opt/vocab"}
    )
    made = build_rank_environment(own, (), cluster="default", hf_home="/models")
    assert {one.name: one.value for one in made}["TIKTOKEN_ENCODINGS_BASE"] == "/opt/vocab"


QWEN3 = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "max_position_embeddings": 40960,
}
DEEPSEEK4 = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "num_hidden_layers": 43,
    "num_key_value_heads": 1,
    "num_attention_heads": 64,
    "head_dim": 512,
    "hidden_size": 4096,
    "max_position_embeddings": 1048576,
    "vocab_size": 129280,
    "torch_dtype": "bfloat16",
    "n_routed_experts": 256,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 2048,
    "quantization_config": {"quant_method": "fp8"},
}


def _fit(folder: Path, config: dict[str, Any], lines: str, *words: str) -> tuple[int, str]:
    (folder / "config.json").write_text(json.dumps(config))
    recipe = folder / "made.yml"
    recipe.write_text(f"description: made\nweights_revision: main\n{lines}\n")
    command = ("recipes.fit", "--recipe", str(recipe), "--folder", str(folder), *words)
    done = run_command(*command)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("length", "code", "expected"),
    [
        ("auto", 0, "it fits: "),
        ("-1", 0, "the longest context that fits, "),
        ("4194304", 2, "it does not fit: "),
    ],
)
def test_t2_50_an_auto_length_is_the_longest_that_fits(
    tmp_path: Path, length: str, code: int, expected: str
) -> None:
    lines = (
        "vllm_model: Qwen/Qwen3-30B-A3B\nengine_image: vllm/vllm-openai:v0.29.0-cu130\n"
        f"vllm_args: {{max-model-len: {length}, gpu-memory-utilization: 0.8, max-num-seqs: 4}}"
    )
    huge = {**QWEN3, "max_position_embeddings": 4194304}
    found, text = _fit(tmp_path, huge, lines)
    assert found == code, text
    assert expected in text


@pytest.mark.parametrize(("tp", "code"), [(2, 0), (4, 0)])
def test_t2_52_a_cache_that_cannot_be_computed_is_not_refused(
    tmp_path: Path, tp: int, code: int
) -> None:
    lines = (
        "vllm_model: deepseek-ai/DeepSeek-V4-Flash-0731\nengine_image: vllm-node\n"
        "checkpoint: {format: fp8, size: 150GB, moe: true}\n"
        "vllm_args: {kv-cache-dtype: fp8_ds_mla, max-model-len: 200000, max-num-seqs: 4}"
    )
    found, text = _fit(tmp_path, DEEPSEEK4, lines, "--tp", str(tp))
    assert found == code, text
    assert "advice: unknown" in text
    assert "unknown layer types of deepseek_v4" in text


@pytest.mark.parametrize(("tp", "code"), [(3, 2), (2, 0)])
def test_t2_57_a_size_that_does_not_divide_the_heads_does_not_fit(
    tmp_path: Path, tp: int, code: int
) -> None:
    lines = (
        "vllm_model: Qwen/Qwen3-30B-A3B\nengine_image: vllm/vllm-openai:v0.29.0-cu130\n"
        "vllm_args: {max-model-len: 32768}"
    )
    found, text = _fit(tmp_path, QWEN3, lines, "--tp", str(tp))
    assert found == code, text
    assert ("3 does not divide its 32 attention heads" in text) == (tp == 3)
