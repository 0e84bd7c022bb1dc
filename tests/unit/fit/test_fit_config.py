from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sparkfleet.errors import InputError
from sparkfleet.fit.config import Architecture, ConfigFields, parse_model_config
from sparkfleet.fit.layers import (
    DENSE,
    EXPERTS,
    FULL,
    LATENT,
    LINEAR,
    MAMBA,
    SLIDING,
    find_sparse_fields,
)

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def read(**fields: Any) -> Architecture:
    return parse_model_config(json.dumps(fields))


class CountedFields(dict[str, Any]):
    """Fields that count how often all of their names are walked through."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()


def test_the_names_of_a_config_are_walked_through_once() -> None:
    """A config.json of 800,000 keys took 2 s, as each question walked through them."""
    fields = CountedFields({**LLAMA, "index_other": 1, "compress_ratio_x": 2})
    assert find_sparse_fields(fields) == ("compress_ratio_x", "index_other")
    assert fields.walks == 1


def test_the_fields_of_a_config_are_laid_over_each_other_once() -> None:
    fields = ConfigFields(tree={**LLAMA, "text_config": {"hidden_size": 1}}, file="config.json")
    assert fields.text is fields.text
    assert fields.text["hidden_size"] == 1


def test_a_plain_model_has_full_attention_in_every_layer() -> None:
    found = read(**LLAMA, torch_dtype="bfloat16")
    assert found.name == "LlamaForCausalLM"
    assert (found.heads, found.kv_heads, found.head_dim) == (64, 8, 128)
    assert found.layer_types == (FULL,) * 4
    assert found.dtype == "bfloat16"


def test_dtype_is_read_by_both_its_names() -> None:
    assert read(torch_dtype="torch.float16").dtype == "float16"
    assert read(dtype="bfloat16").dtype == "bfloat16"
    assert read(text_config={"dtype": "bfloat16"}, torch_dtype="float32").dtype == "bfloat16"
    assert read(dtype="auto").dtype is None


def test_text_config_holds_the_language_model() -> None:
    found = read(
        architectures=["Gemma4ForConditionalGeneration"],
        text_config={"hidden_size": 2816, "num_attention_heads": 16, "head_dim": 256},
        vision_config={"hidden_size": 1152, "num_attention_heads": 12},
    )
    assert (found.hidden, found.heads, found.head_dim) == (2816, 16, 256)
    assert found.name == "Gemma4ForConditionalGeneration"


def test_a_null_in_text_config_hides_nothing() -> None:
    assert read(hidden_size=64, text_config={"hidden_size": None}).hidden == 64


def test_a_missing_field_is_none_and_not_zero() -> None:
    found = read(model_type="llama", num_hidden_layers=2)
    assert found.hidden is None
    assert found.heads is None
    assert found.kv_heads is None
    assert found.experts is None
    assert found.tied is None


def test_multi_head_attention_has_as_many_kv_heads_as_heads() -> None:
    assert read(num_attention_heads=32).kv_heads == 32


@pytest.mark.parametrize(
    ("fields", "types"),
    [
        ({"layer_types": [SLIDING, FULL]}, (SLIDING, FULL)),
        ({"layer_types": ["chunked_attention", FULL]}, ("chunked_attention", FULL)),
        ({"layers_block_type": ["mamba", "attention"]}, (MAMBA, FULL)),
        ({"hybrid_override_pattern": "ME"}, (MAMBA, EXPERTS)),
        ({"hybrid_override_pattern": "*-"}, (FULL, DENSE)),
        ({"full_attention_interval": 2}, (LINEAR, FULL)),
        ({"sliding_window_pattern": 2, "sliding_window": 8}, (SLIDING, FULL)),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, (LATENT, LATENT)),
        ({"model_type": "mistral", "sliding_window": 4096}, (SLIDING, SLIDING)),
        ({"model_type": "mistral", "sliding_window": None}, (FULL, FULL)),
        ({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": False}, (FULL, FULL)),
        ({"model_type": "phi3", "sliding_window": 9, "max_position_embeddings": 9}, (FULL, FULL)),
        ({"text_config": {"model_type": "qwen3_moe_text"}}, (FULL, FULL)),
    ],
)
def test_layer_types_are_read_in_the_words_of_every_family(
    fields: dict[str, Any], types: tuple[str, ...]
) -> None:
    assert read(num_hidden_layers=2, **fields).layer_types == types


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "a_family_nobody_knows"},
        {"model_type": "llama", "sliding_window": 8},
        {"model_type": "deepseek_v3", "kv_lora_rank": 512, "index_head_dim": 128},
        {"layer_types": [FULL]},
        {},
    ],
)
def test_layers_that_the_config_does_not_name_are_unknown(fields: dict[str, Any]) -> None:
    assert read(num_hidden_layers=2, **fields).layer_types is None


def test_executors_ask_for_the_most_kv_heads_of_any_layer() -> None:
    found = read(num_attention_heads=16, num_key_value_heads=8, num_global_key_value_heads=2)
    assert found.attention_heads == (16, 8)


def test_experts_are_read_by_the_names_of_every_family() -> None:
    found = [
        read(num_local_experts=128, experts_per_token=4, intermediate_size=2880).experts,
        read(num_experts=128, top_k_experts=8, moe_intermediate_size=704).experts,
        read(n_routed_experts=64, num_experts_per_tok=6, moe_intermediate_size=9).experts,
    ]
    assert [(one.count, one.per_token, one.intermediate) for one in found if one] == [
        (128, 4, 2880),
        (128, 8, 704),
        (64, 6, 9),
    ]


def test_a_model_without_experts_has_none() -> None:
    assert read(num_experts=None, top_k_experts=None).experts is None


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '"a"'])
def test_text_that_is_not_a_config_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"config\.json is"):
        parse_model_config(text)


@pytest.mark.parametrize("value", [-1, "eight", 1.5, True, 2**50])
def test_an_absurd_number_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="num_hidden_layers: expected an integer from 0"):
        read(num_hidden_layers=value)


# jinaai/jina-embeddings-v3 in huggingface/transformers#34855
@pytest.mark.parametrize(
    ("auto_map", "code"),
    [
        ({"AutoConfig": "org/impl--configuration.C", "AutoModel": "org/impl--modeling.M"}, 1),
        ({"AutoTokenizer": ["org/impl--tokenization.T", None], "AutoModel": "modeling.M"}, 1),
        ({"AutoModel": "modeling_minicpm.MiniCPM"}, 0),
        (None, 0),
        (["AutoModel"], 0),
        ({"AutoModel": 5}, 0),
    ],
)
def test_code_of_other_repositories_is_named(auto_map: object, code: int) -> None:
    assert read(auto_map=auto_map).code == ("org/impl",) * code
