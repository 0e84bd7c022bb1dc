"""The values of a checkpoint's files that the rules for recipes compare with options; pure."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.fit.architecture import Architecture
from sparkfleet.recipes.rules import CheckpointFacts, ObservedFacts


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
