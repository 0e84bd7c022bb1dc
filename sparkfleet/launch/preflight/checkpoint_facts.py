"""The values of a checkpoint's files that the rules for recipes compare with options; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.fit.architecture import Architecture
from sparkfleet.recipes.rules import AdapterFacts, CheckpointFacts, ObservedFacts
from sparkfleet.values import parse_json

ADAPTER = "adapter_config.json"


def add_checkpoint_facts(
    before: ObservedFacts, shape: Architecture, draft: Architecture | None = None
) -> ObservedFacts:
    """Return the facts with those in a model's config.json, and in that of its draft."""
    return replace(
        before,
        format=str(shape.quantization.get("quant_method") or "").lower(),
        architecture=shape.name or "",
        code=shape.code,
        latent=_find_latent_attention(shape),
        checkpoint=_describe_checkpoint(shape, draft),
    )


def add_file_facts(
    before: ObservedFacts, files: Collection[str] | None, adapters: Mapping[str, str]
) -> ObservedFacts:
    """Return the facts with the names of a model's files, and what adapters say of themselves.

    `adapters` are the texts of their adapter_config.json by the path of each.
    """
    read = {path: _parse_adapter(text) for path, text in adapters.items()}
    known = {path: adapter for path, adapter in read.items() if adapter is not None}
    return replace(before, files=files, adapters=known)


def _parse_adapter(text: str) -> AdapterFacts | None:
    try:
        fields: Any = parse_json(text)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    rank = fields.get("r")
    saved = fields.get("modules_to_save")
    return AdapterFacts(
        rank=rank if type(rank) is int else None,
        dora=fields.get("use_dora") is True,
        bias=str(fields.get("bias") or ""),
        saved=tuple(map(str, saved)) if isinstance(saved, list) else (),
    )


def _describe_checkpoint(shape: Architecture, draft: Architecture | None) -> CheckpointFacts:
    sizes = (shape.head_dim, shape.global_head_dim)
    return CheckpointFacts(
        model_type=shape.model_type or "",
        dtype=shape.dtype or "",
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_sizes=() if shape.latent else tuple(size for size in sizes if size),
        vocab=shape.vocab,
        dense=shape.dense,
        hybrid=shape.mamba is not None or shape.linear is not None,
        sparse=shape.latent is not None and shape.latent.index_dim is not None,
        encoder_heads=shape.tower.heads if shape.tower else None,
        draft_vocab=draft.vocab if draft else None,
        draft_block=(draft and draft.draft_block) or shape.draft_block,
    )


def _find_latent_attention(shape: Architecture) -> bool | None:
    """Return whether a model has MLA; None for sparse attention, which has backends of its own."""
    latent = shape.latent
    if shape.key_index is not None or (latent is not None and latent.index_dim is not None):
        return None
    return None if latent is None and not shape.kv_heads else latent is not None
