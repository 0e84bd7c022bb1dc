"""Reasons for which vLLM refuses a start whatever the memory is; pure.

It divides the attention heads by ``--tp`` (config/model.py), copies KV heads where there are fewer
than ranks (layers/linear.py), gives each stage of ``--pp`` a layer, cuts through no block of a
quantization (`fit.limits.blocks`), and takes no sequence longer than the positions of config.json
(`_get_and_verify_max_len`).
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.limits.blocks import list_divisions
from sparkfleet.fit.options import ALLOW_LONG, ServeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why vLLM refuses, and what to set instead."""

    why: str
    fix: str


def find_refusal(shape: Architecture, options: ServeOptions) -> Refusal | None:
    """Return the first thing that vLLM refuses; what config.json does not say is ignored."""
    checks = (refuse_heads, refuse_kv_heads, refuse_stages, _check_blocks, _check_positions)
    found = (check(shape, options) for check in checks)
    return next((refusal for refusal in found if refusal), None)


def refuse_heads(shape: Architecture, options: ServeOptions) -> Refusal | None:
    """Return why vLLM refuses ``--tp`` for the attention heads, or None."""
    heads = shape.heads
    if not heads or heads % options.tp == 0:
        return None
    sizes = [str(size) for size in range(1, options.tp) if heads % size == 0]
    return Refusal(
        why=f"{options.tp} does not divide its {heads} attention heads",
        fix=f"use --tp {', '.join(sizes)}",
    )


def refuse_kv_heads(shape: Architecture, options: ServeOptions) -> Refusal | None:
    """Return why vLLM refuses ``--tp`` for the KV heads, or None."""
    kv_heads = shape.attention_heads[1]
    if not kv_heads or shape.latent or not (kv_heads % options.tp and options.tp % kv_heads):
        return None
    return Refusal(
        why=f"{options.tp} neither divides its {kv_heads} KV heads nor is a multiple of them",
        fix=f"use a --tp that divides {kv_heads}, or a multiple of it",
    )


def refuse_stages(shape: Architecture, options: ServeOptions) -> Refusal | None:
    """Return why vLLM refuses ``--pp`` for the layers, or None."""
    if not shape.layers or shape.layers >= options.pp:
        return None
    return Refusal(
        why=f"its {shape.layers} layers are fewer than the {options.pp} stages of --pp",
        fix=f"use --pp {shape.layers} or less",
    )


def _check_blocks(shape: Architecture, options: ServeOptions) -> Refusal | None:
    """Refuse only what the version that will run is known to refuse."""
    divisions = list_divisions(shape, options)
    cut = next((item for item in divisions if item.refused and item.sure), None)
    return None if cut is None else Refusal(why=cut.why, fix=cut.fix)


def _check_positions(shape: Architecture, options: ServeOptions) -> Refusal | None:
    limit = (shape.context or 0) * shape.stretch
    if not limit or options.stretched or (options.length or 0) <= limit:
        return None
    return Refusal(
        why=f"max-model-len {options.length} is more than the {limit:.0f} positions of config.json",
        fix=f"set max-model-len: {limit:.0f}, or what the model's card names for more: "
        f"hf-overrides, or {ALLOW_LONG}: 1 in vllm_env",
    )
