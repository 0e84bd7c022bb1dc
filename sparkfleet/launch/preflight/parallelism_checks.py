"""Checks that a model can be divided by ``--tp N --pp M``; pure.

vLLM itself reports this only after minutes: it rejects attention heads that N does not divide
(config/model.py of 0.32) and weights in blocks that it would cut through (`fit.limits.blocks`), and
copies KV heads when there are fewer than ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.fit.config import Architecture
from sparkfleet.fit.limits.blocks import Division, list_divisions
from sparkfleet.fit.options import ServeOptions
from sparkfleet.model import Severity, Verdict
from sparkfleet.verdicts import build_verdict, info

SOURCE = "config.json"
BLOCKS_SOURCE = "weight_block_size in config.json; vllm#17569, vllm#45784, vllm#52997"


def check_parallelism(
    model: Architecture, options: ServeOptions, *, host: str, copies: int = 1
) -> Iterator[Verdict]:
    """Yield verdicts on the heads, the layers and the quantized blocks of `model`."""
    tp, pp = options.tp, options.pp
    heads, kv_heads = model.attention_heads
    if tp > 1:
        yield _check_attention_heads(heads, tp, host)
    if tp > 1 and heads and not heads % tp and not model.latent:
        yield _check_kv_heads(kv_heads, tp, host)
    if pp > 1:
        yield _check_layers(model.layers, pp, host)
    for division in list_divisions(model, options, copies):
        yield _check_blocks(division, options, host)


def _check_attention_heads(heads: int | None, tp: int, host: str) -> Verdict:
    if heads is None:
        return _unknown_shape_verdict("attention heads", f"a multiple of --tp {tp}", host)
    fits = heads % tp == 0
    sizes = ", ".join(str(size) for size in range(1, tp) if heads % size == 0)
    return build_verdict(
        Severity.OK if fits else Severity.ERROR,
        "model.heads",
        host,
        "attention heads",
        expected=f"a multiple of --tp {tp}",
        seen=str(heads),
        source=SOURCE,
        fix="" if fits else f"use --tp {sizes}, or --pp, which divides the layers",
    )


def _check_kv_heads(kv_heads: int | None, tp: int, host: str) -> Verdict:
    if kv_heads is None:
        return _unknown_shape_verdict("KV heads", f"a multiple or a divisor of --tp {tp}", host)
    copied = kv_heads < tp
    fits = (tp % kv_heads if copied else kv_heads % tp) == 0
    severity = Severity.INFO if copied else Severity.OK
    copies = f"{tp // kv_heads} ranks hold the same KV cache, so more ranks add no capacity"
    return build_verdict(
        severity if fits else Severity.ERROR,
        "model.kv_heads",
        host,
        "KV heads",
        expected=f"a multiple or a divisor of --tp {tp}",
        seen=f"{kv_heads}; {copies}" if copied and fits else str(kv_heads),
        source=SOURCE,
        fix="" if fits else f"use a --tp that divides {kv_heads}, or a multiple of it",
    )


def _check_layers(layers: int | None, pp: int, host: str) -> Verdict:
    if layers is None:
        return _unknown_shape_verdict("layers", f"at least {pp}, one for each stage of --pp", host)
    fits = layers >= pp
    return build_verdict(
        Severity.OK if fits else Severity.ERROR,
        "model.layers",
        host,
        "layers",
        expected=f"at least {pp}, one for each stage of --pp",
        seen=str(layers),
        source=SOURCE,
        fix="" if fits else f"use --pp {layers} or less",
    )


def _check_blocks(division: Division, options: ServeOptions, host: str) -> Verdict:
    """Return the verdict on one part; a vLLM that may be newer than what is known only warns."""
    cut = Severity.ERROR if division.sure else Severity.WARNING
    unsure = "" if division.sure else f"; vLLM {options.vllm or '(unknown version)'} may take it"
    return build_verdict(
        cut if division.refused else Severity.OK,
        "model.blocks",
        host,
        f"{division.noun} of the {division.part}",
        expected=f"a multiple of {division.block} for each of {division.ranks} ranks",
        seen=division.sentence + (unsure if division.refused else ""),
        source=BLOCKS_SOURCE,
        fix=division.fix,
    )


def _unknown_shape_verdict(subject: str, expected: str, host: str) -> Verdict:
    return info(
        "model.unknown",
        host,
        subject,
        expected=expected,
        seen="unknown: not in the file, or in an unknown form",
        source=SOURCE,
        fix="none: vLLM checks it when it starts",
    )
