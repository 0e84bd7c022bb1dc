"""Options against the files of a model, of its adapters, and names of GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.recipes.options import ValidateOptions
from sparkfleet.cli.recipes.validate import show_findings
from sparkfleet.launch.preflight.checkpoint_facts import add_file_facts
from sparkfleet.recipes.rules import ObservedFacts
from sparkfleet.vllm.lora_modules import parse_lora_modules
from tests.judged import Recipes

RULES = ("model_files", "adapter", "gguf", "needs")
MISTRAL = ("params.json", "consolidated.safetensors", "tekken.json")
PLAIN = ("config.json", "model-00001-of-00002.safetensors", "tokenizer.json")
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
HYBRID = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "qwen3_5_moe_text",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "num_hidden_layers": 40,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 10,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_value_head_dim": 128,
        "mamba_ssm_dtype": "float32",
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
    },
}
ADAPTER = {"r": 64, "lora_alpha": 32, "target_modules": ["q_proj"], "bias": "none"}
LORA = {"enable-lora": True, "lora-modules": ["sql=@MODEL@/sql"]}


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _build(args: dict[str, Any], vllm: str = "0.28.0", **more: Any) -> dict[str, Any]:
    image = f"vllm/vllm-openai:v{vllm}-cu130"
    return {"vllm_model": "a/b", "vllm_args": args, "engine_image": image, **more}


@pytest.mark.parametrize(
    ("args", "files", "fires"),
    [
        ({"config-format": "mistral"}, PLAIN, True),  # vllm#17132
        ({"load-format": "mistral"}, PLAIN, True),
        ({"tokenizer-mode": "mistral"}, PLAIN, True),  # vllm#17210
        ({"tokenizer-mode": "mistral", "tokenizer": "a/c"}, PLAIN, False),
        ({"tokenizer-mode": "mistral"}, (*PLAIN, "tokenizer.model.v3"), False),
        ({"config-format": "hf"}, MISTRAL, True),
        ({"load-format": "fastsafetensors"}, ("config.json", "pytorch_model.bin"), True),
        ({"load-format": "fastsafetensors"}, PLAIN, False),
        ({"load-format": "auto", "config-format": "auto"}, PLAIN, False),
        ({"load-format": "safetensors", "config-format": "mistral"}, ("config.json",), False),
        (
            {"config-format": "mistral", "load-format": "mistral", "tokenizer-mode": "mistral"},
            MISTRAL,
            False,
        ),
    ],
)
def test_a_format_needs_its_files(
    recipes: Recipes, args: dict[str, Any], files: tuple[str, ...], *, fires: bool
) -> None:
    known = add_file_facts(ObservedFacts(), files, {})
    found = recipes.found(_build(args), among=RULES, known=known)
    assert found == ({"model_files": "error"} if fires else {})
    assert recipes.found(_build(args), among=RULES) == {}  # the files are not known


@pytest.mark.parametrize(
    ("changed", "limit", "fires"),
    [
        ({}, None, True),  # gpustack#5438: a rank of 64, of 16 at most
        ({}, 64, False),
        ({"r": 16}, None, False),
        ({"r": 8, "use_dora": True}, None, True),
        ({"r": 8, "bias": "all"}, None, True),
        ({"r": 8, "modules_to_save": ["embed_tokens"]}, None, True),
        ({"r": 8, "modules_to_save": ["score"]}, None, False),
        ({"r": 8, "modules_to_save": None}, None, False),
        ({"r": None}, None, False),
    ],
)
def test_an_adapter_has_what_vllm_supports(
    recipes: Recipes, changed: dict[str, Any], limit: int | None, *, fires: bool
) -> None:
    text = json.dumps(ADAPTER | changed)
    known = add_file_facts(ObservedFacts(), None, {"@MODEL@/sql": text})
    recipe = _build(LORA | ({"max-lora-rank": limit} if limit else {}))
    assert recipes.found(recipe, among=RULES, known=known) == (
        {"adapter": "error"} if fires else {}
    )


def test_adapters_need_lora_to_be_enabled(recipes: Recipes) -> None:
    recipe = _build({"lora-modules": "sql=/models/sql"})
    assert recipes.found(recipe, among=RULES) == {"needs": "error"}


def test_the_fix_names_the_next_rank(recipes: Recipes) -> None:
    for rank, fix in ((48, "max-lora-rank: 64"), (1024, "merge this one")):
        text = json.dumps(ADAPTER | {"r": rank})
        known = add_file_facts(ObservedFacts(), None, {"@MODEL@/sql": text})
        (found,) = [
            result.finding
            for result in recipes.judged(_build(LORA), known=known)
            if result.rule.id == "adapter"
        ]
        assert fix in found.fix


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000, '{"r": "64"}'])
def test_an_adapter_without_a_rank_is_left_to_vllm(recipes: Recipes, text: str) -> None:
    known = add_file_facts(ObservedFacts(), None, {"@MODEL@/sql": text})
    assert recipes.found(_build(LORA), among=RULES, known=known) == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sql=/a/b", {"sql": "/a/b"}),
        (["sql=/a/b", "chat=org/c=d"], {"sql": "/a/b", "chat": "org/c=d"}),
        ('{"name": "sql", "path": "/a"}', {"sql": "/a"}),
        ([{"name": "sql", "path": "/a", "base_model_name": "x"}], {"sql": "/a"}),
        (None, {}),
        (True, {}),
        ("{", {}),
        ([3, {"name": "x"}], {}),
    ],
)
def test_adapters_are_read_in_each_form(value: Any, expected: dict[str, str]) -> None:
    assert parse_lora_modules(value) == expected


@pytest.mark.parametrize(
    ("model", "vllm", "more", "found"),
    [
        ("unsloth/Qwen3-0.6B-GGUF:IQ1_S", "0.11.2", {}, "error"),  # vllm#29137
        ("unsloth/Qwen3-0.6B-GGUF:IQ1_S", "0.12.0", {}, None),
        ("unsloth/Qwen3-0.6B-GGUF:UD-IQ1_S", "0.19.1", {}, "error"),  # vllm#39471
        ("unsloth/Qwen3-0.6B-GGUF:UD-IQ1_S", "0.20.2", {}, None),
        ("unsloth/Qwen3-0.6B-GGUF:Q4_K_M", "0.28.0", {}, "error"),
        ("unsloth/Qwen3-0.6B-GGUF:Q4_K_M", "0.28.0", {"engine_pip": ["vllm-gguf-plugin"]}, None),
        ("/models/tiny.Q4_K_M.gguf", "0.23.0", {}, None),
        ("/models/tiny.Q4_K_M.gguf", "0.24.0", {}, "error"),
        ("Qwen/Qwen3-0.6B", "0.28.0", {}, None),
        ("/models/qwen", "0.28.0", {}, None),
    ],
)
def test_a_gguf_file_is_named_as_that_vllm_takes_it(
    recipes: Recipes, model: str, vllm: str, more: dict[str, Any], found: str | None
) -> None:
    recipe = _build({}, vllm) | {"vllm_model": model} | more
    assert recipes.found(recipe, among=RULES).get("gguf") == found


def _validate(
    tmp_path: Path, recipe: str, capsys: pytest.CaptureFixture[str], vllm: str = "0.28.0"
) -> tuple[int, str]:
    path = tmp_path / "made.yml"
    path.write_text(recipe)
    code = show_findings(
        ValidateOptions(task="recipes.validate", names=str(path), vllm=vllm, folder=tmp_path / "m")
    )
    return code, capsys.readouterr().out


def test_a_folder_here_is_read_with_its_adapters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m/adapters/sql").mkdir(parents=True)
    (tmp_path / "m/config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "m/adapters/sql/adapter_config.json").write_text(json.dumps(ADAPTER))
    (tmp_path / "own").mkdir()
    (tmp_path / "own/adapter_config.json").write_text(json.dumps(ADAPTER | {"r": 128}))
    recipe = (
        "vllm_model: a/b\nvllm_args:\n  enable-lora: true\n"
        f"  lora-modules: [sql=@MODEL@/adapters/sql, own={tmp_path}/own]\n"
    )
    code, out = _validate(tmp_path, recipe, capsys)
    assert code == 5
    assert "the adapter sql: expected a rank of 16 at most" in out
    assert (
        "the adapter own: expected a rank of 16 at most (max-lora-rank); saw a rank of 128" in out
    )
    assert _validate(tmp_path, recipe + "  max-lora-rank: 128\n", capsys)[0] == 0


def test_a_folder_of_mistral_has_no_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m").mkdir()
    for name in MISTRAL:
        (tmp_path / "m" / name).write_bytes(b"{}")
    code, out = _validate(tmp_path, "vllm_model: a/b\nvllm_args: {config-format: hf}\n", capsys)
    assert code == 5
    assert "--config-format: expected a model with config.json" in out


def test_a_wrong_option_is_shown_with_its_place_though_a_folder_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text(json.dumps(LLAMA))
    recipe = "vllm_model: a/b\nvllm_args: {speculative-config: 'method:dspark'}\n"
    code, out = _validate(tmp_path, recipe, capsys)
    assert code == 5
    assert "error: --speculative-config: expected a JSON object" in out
    assert "made.yml:2:13" in out


@pytest.mark.parametrize(
    ("vllm", "args", "refused"),
    [
        ("0.17.1", "mamba-cache-mode: align, max-num-batched-tokens: 512", True),  # vllm#36734
        ("0.17.1", "mamba-cache-mode: align, max-num-batched-tokens: 2048", False),
        ("0.17.1", "mamba-cache-mode: align", False),  # 8192 by default
        ("0.17.1", "max-num-batched-tokens: 512", False),
        ("0.28.0", "mamba-cache-mode: align, max-num-batched-tokens: 512", False),
    ],
)
def test_an_aligned_state_fills_a_block_that_a_batch_must_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], vllm: str, args: str, *, refused: bool
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text(json.dumps(HYBRID))
    recipe = f"vllm_model: a/b\nvllm_args: {{enable-prefix-caching: true, {args}}}\n"
    code, out = _validate(tmp_path, recipe, capsys, vllm)
    assert ("is less than a block of its KV cache, about 1056 tokens" in out) is refused
    assert (code == 5) is refused
