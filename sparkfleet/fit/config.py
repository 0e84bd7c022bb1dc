"""Reads the architecture of a model from its `config.json`, in the terms of every family; pure.

A field that the file does not have is None, which is not zero. Multimodal models keep the language
model in `text_config`; transformers 5 renamed `torch_dtype` to `dtype`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparkfleet.errors import InputError
from sparkfleet.fit import layers
from sparkfleet.fit.architecture import Architecture, Experts, KeyIndex, Latent, Recurrent, Tower
from sparkfleet.fit.sparse import families
from sparkfleet.model import EMPTY
from sparkfleet.values import convert_integer, parse_json

__all__ = ["Architecture", "parse_model_config"]

MAX_COUNT = 2**32  # larger than any count in a config.json
MAX_LAYERS = 10_000
AGAIN = "download the file again; vLLM cannot read such a value"
COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
EXPERTS = ("expert", "moe")  # in any name or word of a model that has them
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")


def parse_model_config(text: str, *, file: str = "config.json") -> Architecture:
    """Return the architecture in the text of a `config.json`.

    Raises InputError for text that is not a JSON object, and for an impossible number.
    """
    try:
        tree = parse_json(text)
    except ValueError as error:
        raise InputError(f"{file} is not JSON: {error}", hint="download the file again") from error
    if not isinstance(tree, dict):
        raise InputError(f"{file} is not a JSON object", hint="pass the config.json of the model")
    lower = text.lower()
    dense = not any(word in lower for word in EXPERTS)
    return build_architecture(ConfigFields(tree=tree, file=file), dense=dense)


@dataclass(frozen=True, kw_only=True)
class ConfigFields:
    """The fields of a config; each is looked up by several names, first in the language model."""

    tree: Mapping[str, Any]
    file: str

    @cached_property
    def text(self) -> Mapping[str, Any]:
        """The fields of the language model over those of the whole."""
        nested = [self.tree[key] for key in NESTED if isinstance(self.tree.get(key), dict)]
        inner: dict[str, Any] = nested[0] if nested else {}
        innermost = inner.get("text_config")  # thinker_config nests once more
        inner = innermost if isinstance(innermost, dict) and innermost else inner
        return {**self.tree, **{key: value for key, value in inner.items() if value is not None}}

    def value(self, *names: str) -> Any:
        """Return the value of the first of `names` that is set and not null."""
        text = self.text
        return next((text[name] for name in names if text.get(name) is not None), None)

    def string(self, *names: str) -> str | None:
        """Return a text; raises InputError for anything else."""
        value = self.value(*names)
        if value is not None and not isinstance(value, str):
            raise InputError(f"{self.file}: {names[0]}: expected text (got {value!r})", hint=AGAIN)
        return value

    def mapping(self, *names: str) -> Mapping[str, Any]:
        """Return a mapping, empty where there is none; raises InputError for anything else."""
        value = self.value(*names)
        if value is not None and not isinstance(value, dict):
            raise InputError(
                f"{self.file}: {names[0]}: expected an object (got {value!r})", hint=AGAIN
            )
        return value or EMPTY

    def number(self, *names: str, most: int = MAX_COUNT) -> int | None:
        """Return an integer from 0 to `most`; raises InputError for anything else."""
        value = self.value(*names)
        if isinstance(value, list):  # as written for models whose layers differ
            value = value[0] if value and all(item == value[0] for item in value) else None
        if value is None:
            return None
        try:
            return convert_integer(value, minimum=0, maximum=most, strict=True)
        except ValueError as error:
            raise InputError(f"{self.file}: {names[0]}: {error}", hint=AGAIN) from error


def build_architecture(fields: ConfigFields, *, dense: bool) -> Architecture:
    """Return the architecture that `fields` describe; `dense` where nothing names experts."""
    number = fields.number
    value = fields.value
    names = value("architectures")
    tied = value("tie_word_embeddings")
    count = number("num_hidden_layers", "n_layer", most=MAX_LAYERS)
    return Architecture(
        name=str(names[0]) if isinstance(names, list) and names else None,
        model_type=fields.string("model_type"),
        dtype=_normalize_dtype(value("dtype", "torch_dtype")),
        layers=count,
        layer_types=layers.read_layer_types(fields.text, count),
        sparse=layers.find_sparse_fields(fields.text),
        intermediate=number("intermediate_size", "n_inner"),
        vocab=number("vocab_size"),
        context=number("max_position_embeddings", "model_max_length"),
        stretch=_parse_rope_factor(value("rope_parameters", "rope_scaling")),
        draft_layers=number(*DRAFTS, most=MAX_LAYERS) or 0,
        draft_block=number("dspark_block_size"),
        quantization=fields.mapping("quantization_config", "compression_config"),
        code=_list_code_repositories(fields.tree.get("auto_map")),
        tied=tied if isinstance(tied, bool) else None,
        activation=fields.string("mlp_hidden_act", "hidden_act", "hidden_activation"),
        experts=_parse_experts(fields) if number(*COUNTS) else None,
        dense=dense,
        tower=_parse_tower(fields.tree),
        **_parse_heads(fields),
        **_parse_attention(fields),
    )


def _parse_rope_factor(rope: Any) -> float:
    """Return by how much RoPE scaling can stretch the positions; those of llama3 include it."""
    if not isinstance(rope, dict):
        return 1.0
    scalings = [rope, *(item for item in rope.values() if isinstance(item, dict))]
    factors = [scaling.get("factor") for scaling in scalings]
    numbers = [
        float(factor)
        for factor in factors
        if isinstance(factor, int | float) and factor < MAX_COUNT
    ]
    return max(1.0, *numbers) if numbers else 1.0


def _list_code_repositories(auto_map: Any) -> tuple[str, ...]:
    """Return the repositories of ``REPOSITORY--module.Class``, once each."""
    values = auto_map.values() if isinstance(auto_map, dict) else ()
    lists = (value if isinstance(value, list) else [value] for value in values)
    texts = [str(item) for value in lists for item in value]
    return tuple(dict.fromkeys(text.partition("--")[0] for text in texts if "--" in text))


def _parse_heads(fields: ConfigFields) -> dict[str, Any]:
    number = fields.number
    hidden = number("hidden_size", "n_embd", "dim")
    heads = number("num_attention_heads", "n_head")
    return {
        "hidden": hidden,
        "heads": heads,
        "kv_heads": number("num_key_value_heads", "num_kv_heads") or heads,
        "head_dim": number("head_dim", "attention_head_dim")
        or (hidden // heads if hidden and heads else None),
        "value_head_dim": number("v_head_dim"),
    }


def _parse_attention(fields: ConfigFields) -> dict[str, Any]:
    number = fields.number
    value = fields.value
    used = value("use_sliding_window") is not False
    return {
        "global_kv_heads": number("num_global_key_value_heads"),
        "global_head_dim": number("global_head_dim"),
        "keys_are_values": bool(value("attention_k_eq_v")),
        "gated_attention": bool(value("attn_output_gate")),
        "window": number("sliding_window") if used else None,
        "shared_kv_layers": number("num_kv_shared_layers") or 0,
        "latent": _parse_latent_attention(fields) if number("kv_lora_rank") else None,
        "key_index": _parse_key_index(fields) if layers.is_key_indexed(fields.text) else None,
        "pooled_index": families.find_pooled_index(fields.text),
        "compressed": families.find_compressed(fields.text),
        "key_bytes": families.list_key_bytes(fields.text),
        "mamba": _parse_mamba(fields) if number("mamba_num_heads", "mamba_n_heads") else None,
        "linear": _parse_linear_attention(fields)
        if number("linear_num_value_heads")
        else _parse_delta_attention(fields),
    }


def _parse_latent_attention(fields: ConfigFields) -> Latent:
    indexed = layers.is_indexed_latent(fields.text)
    count = fields.number("num_hidden_layers", "n_layer", most=MAX_LAYERS) or 0
    return Latent(
        rank=fields.number("kv_lora_rank"),
        rope_dim=fields.number("qk_rope_head_dim"),
        nope_dim=fields.number("qk_nope_head_dim"),
        value_dim=fields.number("v_head_dim"),
        query_rank=fields.number("q_lora_rank"),
        index_dim=fields.number("index_head_dim") if indexed else None,
        indexed=layers.list_indexed_layers(fields.text, count) if indexed else (),
    )


def _parse_key_index(fields: ConfigFields) -> KeyIndex:
    return KeyIndex(
        dim=fields.number("indexer_head_dim") or 0,
        ratio=fields.number("indexer_compress_ratio") or 1,
        ngrams=bool(fields.value("ple_layer_ids")),
    )


def _parse_mamba(fields: ConfigFields) -> Recurrent:
    return Recurrent(
        key_heads=fields.number("n_groups", "mamba_n_groups", "mamba_num_groups"),
        key_dim=fields.number("ssm_state_size", "mamba_d_state", "mamba_state_dim"),
        value_heads=fields.number("mamba_num_heads", "mamba_n_heads"),
        value_dim=fields.number("mamba_head_dim", "mamba_d_head"),
        kernel=fields.number("conv_kernel", "mamba_d_conv"),
        dtype=_normalize_dtype(fields.value("mamba_ssm_cache_dtype", "mamba_ssm_dtype")),
    )


def _parse_linear_attention(fields: ConfigFields) -> Recurrent:
    return Recurrent(
        key_heads=fields.number("linear_num_key_heads"),
        key_dim=fields.number("linear_key_head_dim"),
        value_heads=fields.number("linear_num_value_heads"),
        value_dim=fields.number("linear_value_head_dim"),
        kernel=fields.number("linear_conv_kernel_dim"),
        dtype=_normalize_dtype(fields.value("mamba_ssm_cache_dtype", "mamba_ssm_dtype")),
    )


def _parse_delta_attention(fields: ConfigFields) -> Recurrent | None:
    """Return the state of Kimi delta attention (KDA): keys and values have the same heads."""
    inner = fields.mapping("linear_attn_config")
    if not inner:
        return None
    own = ConfigFields(tree=inner, file=f"{fields.file}: linear_attn_config")
    heads = own.number("num_heads")
    dim = own.number("head_dim")
    return Recurrent(
        key_heads=heads,
        key_dim=dim,
        value_heads=heads,
        value_dim=dim,
        kernel=own.number("short_conv_kernel_size"),
        dtype="float32",
    )


def _parse_experts(fields: ConfigFields) -> Experts:
    number = fields.number
    shared = number("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
    count = number("n_shared_experts")
    width = number("moe_intermediate_size")
    return Experts(
        count=number(*COUNTS),
        per_token=number("num_experts_per_tok", "experts_per_token", "top_k_experts"),
        intermediate=width or number("intermediate_size"),
        shared=shared or (count * width if count and width else None),
        latent=number("moe_latent_size"),
        dense_first=number("first_k_dense_replace") or 0,
        parallel_mlp=bool(fields.value("enable_moe_block")),
    )


def _parse_tower(tree: Mapping[str, Any]) -> Tower | None:
    inner = tree.get("vision_config")
    if not isinstance(inner, dict):
        return None
    fields = ConfigFields(tree=inner, file="vision_config")
    return Tower(
        layers=fields.number("num_hidden_layers", "depth"),
        hidden=fields.number("hidden_size"),
        intermediate=fields.number("intermediate_size"),
        heads=fields.number("num_heads", "num_attention_heads"),
    )


def _normalize_dtype(value: Any) -> str | None:
    return None if value in (None, "auto") else str(value).removeprefix("torch.")
