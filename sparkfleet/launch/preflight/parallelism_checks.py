"""Checks that a model can be divided by ``--tp N --pp M``; pure.

vLLM itself reports this only after minutes: it rejects attention heads that N does not divide
(config/model.py of 0.32) and weights in blocks that it would cut through (`fit.limits.blocks`), and
copies KV heads when there are fewer than ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.fit.config import Architecture
from sparkfleet.fit.limits.blocks import Division, list_divisions
from sparkfleet.fit.limits.refusals import refuse_heads, refuse_kv_heads, refuse_stages
from sparkfleet.fit.options import ServeOptions
from sparkfleet.model import Severity, Verdict
from sparkfleet.verdicts import build_verdict, info

SOURCE = "config.json"
BLOCKS_SOURCE = "weight_block_size in config.json; vllm#17569, vllm#45784, vllm#52997"


def check_parallelism(
    model: Architecture, options: ServeOptions, *, host: str, copies: int = 1
) -> Iterator[Verdict]:
    """Yield verdicts on the heads, the layers and the quantized blocks of `model`."""
    heads = model.heads
    if options.tp > 1:
        yield _check_attention_heads(model, options, host)
    if options.tp > 1 and heads and not heads % options.tp and not model.latent:
        yield _check_kv_heads(model, options, host)
    if options.pp > 1:
        yield _check_layers(model, options, host)
    for division in list_divisions(model, options, copies):
        yield _check_blocks(division, options, host)


def _check_attention_heads(model: Architecture, options: ServeOptions, host: str) -> Verdict:
    expected = f"a multiple of --tp {options.tp}"
    if model.heads is None:
        return _unknown_shape_verdict("attention heads", expected, host)
    refusal = refuse_heads(model, options)
    return build_verdict(
        Severity.ERROR if refusal else Severity.OK,
        "model.heads",
        host,
        "attention heads",
        expected=expected,
        seen=str(model.heads),
        source=SOURCE,
        fix=f"{refusal.fix}, or --pp, which divides the layers" if refusal else "",
    )


def _check_kv_heads(model: Architecture, options: ServeOptions, host: str) -> Verdict:
    kv_heads = model.attention_heads[1]
    expected = f"a multiple or a divisor of --tp {options.tp}"
    if kv_heads is None:
        return _unknown_shape_verdict("KV heads", expected, host)
    copied = kv_heads < options.tp
    refusal = refuse_kv_heads(model, options)
    copies = f"{options.tp // kv_heads} ranks hold the same KV cache, so more ranks add no capacity"
    severity = Severity.INFO if copied else Severity.OK
    return build_verdict(
        Severity.ERROR if refusal else severity,
        "model.kv_heads",
        host,
        "KV heads",
        expected=expected,
        seen=f"{kv_heads}; {copies}" if copied and not refusal else str(kv_heads),
        source=SOURCE,
        fix=refusal.fix if refusal else "",
    )


def _check_layers(model: Architecture, options: ServeOptions, host: str) -> Verdict:
    expected = f"at least {options.pp}, one for each stage of --pp"
    if model.layers is None:
        return _unknown_shape_verdict("layers", expected, host)
    refusal = refuse_stages(model, options)
    return build_verdict(
        Severity.ERROR if refusal else Severity.OK,
        "model.layers",
        host,
        "layers",
        expected=expected,
        seen=str(model.layers),
        source=SOURCE,
        fix=refusal.fix if refusal else "",
    )


def _check_blocks(division: Division, options: ServeOptions, host: str) -> Verdict:
    """Return the verdict on one part; a vLLM that may be newer than what is known only warns."""
    cut = Severity.ERROR if division.sure else Severity.WARNING
    unsure = "" if division.sure else f"; vLLM {options.vllm or '(unknown version)'} may accept it"
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
        seen="no number: missing from the file, or in an unknown format",
        source=SOURCE,
        fix="none: vLLM checks it when it starts",
    )
