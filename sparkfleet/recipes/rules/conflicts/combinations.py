"""Options that vLLM refuses together, whatever the model is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.bounds import read_count
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.option_types import load_option_types
from sparkfleet.vllm.options import SPECULATIVE_KEYS, parse_json_object
from sparkfleet.vllm.releases import parse_version

EXCLUSIVE = (  # an option, and the key of another one that sets the same
    ("attention-backend", "attention-config", "backend"),
    ("cudagraph-capture-sizes", "compilation-config", "cudagraph_capture_sizes"),
    ("max-cudagraph-capture-size", "compilation-config", "max_cudagraph_capture_size"),
    *((name, "speculative-config", key) for name, key in SPECULATIVE_KEYS.items()),
)
EXCLUSIVE_SINCE = Version("0.16.0")  # all; those of drafts came with 0.22.1
SYNCHRONOUS = ("ngram", "[ngram]", "suffix", "medusa", "mlp_speculator")
NO_ASYNC_DRAFTS_UNTIL = Version("0.10.2")
RANK = "max-lora-rank"
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
NO_RANK_ONE_UNTIL = Version("0.10.2")
NO_PREFIXES_UNTIL = Version("0.25.1")  # later hybrid models cache prefixes by default


def _is_since(context: RuleContext, least: Version) -> bool:
    """Return whether the vLLM that will run is known to be `least` or later."""
    version = parse_version(context.version)
    return version is not None and version >= least


def _is_until(context: RuleContext, last: Version) -> bool:
    """Return whether the vLLM that will run is known to be `last` or before."""
    version = parse_version(context.version)
    return version is not None and version <= last


def _check_balanced_experts(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.enabled_option("enable-eplb")
    config = context.option("eplb-config")
    redundant = parse_json_object(config.value if config else None).get("num_redundant_experts")
    if option is None:
        if config is not None and isinstance(redundant, int) and redundant > 0:
            yield RuleFinding(
                subject="num_redundant_experts in eplb-config",
                expected="enable-eplb: true as well",
                seen=str(redundant),
                where=config.where,
                fix="write in vllm_args: enable-eplb: true, or remove num_redundant_experts",
                severity=Severity.ERROR
                if _is_since(context, EXCLUSIVE_SINCE)
                else Severity.WARNING,
            )
        return
    if context.enabled_option("enable-expert-parallel") is None:
        yield RuleFinding(
            subject=option.flag,
            expected="enable-expert-parallel: true as well",
            seen="EPLB without expert parallelism",
            where=option.where,
            fix="write in vllm_args: enable-expert-parallel: true, or remove enable-eplb",
        )
    elif context.dp is not None and context.tp * context.dp == 1:
        yield RuleFinding(
            subject=option.flag,
            expected="--tp or --dp above 1",
            seen="one rank, which holds all experts",
            where=option.where,
            fix="remove enable-eplb",
        )


def _check_async_scheduling(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("async-scheduling")
    method = str(context.draft.get("method") or "").lower()
    if option is None or option.value is not True or not context.draft:
        return
    if method in SYNCHRONOUS or _is_until(context, NO_ASYNC_DRAFTS_UNTIL):
        yield RuleFinding(
            subject=option.flag,
            expected=f"unset, with drafts of {method or 'a model'}",
            seen="true",
            where=option.where,
            fix="remove async-scheduling: vLLM enables it where it can",
        )


def _check_exclusive_options(context: RuleContext) -> Iterator[RuleFinding]:
    for name, holder, key in EXCLUSIVE:
        option = context.option(name)
        config = context.option(holder)
        inner = parse_json_object(config.value if config else None).get(key)
        if option is not None and inner is not None:
            yield RuleFinding(
                subject=option.flag,
                expected=f"either it, or {key} in {holder}",
                seen="both",
                where=option.where,
                fix=f"keep one of the two: remove {name}, or remove {key} from {holder}",
                severity=Severity.ERROR
                if _is_since(context, EXCLUSIVE_SINCE)
                else Severity.WARNING,
            )


def _check_graph_sizes(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("compilation-config")
    config = parse_json_object(option.value if option else None)
    sizes, most = config.get("cudagraph_capture_sizes"), config.get("max_cudagraph_capture_size")
    if option is None or not isinstance(sizes, list) or type(most) is not int:
        return
    if not sizes or not all(type(size) is int for size in sizes):
        return
    if max(sizes) != most and _is_since(context, EXCLUSIVE_SINCE):
        yield RuleFinding(
            subject="max_cudagraph_capture_size in compilation-config",
            expected=f"{max(sizes)}, the largest of cudagraph_capture_sizes, or unset",
            seen=str(most),
            where=option.where,
            fix="remove max_cudagraph_capture_size",
            severity=Severity.WARNING,  # vLLM first drops sizes that are too large for the batch
        )


def _check_lora(context: RuleContext) -> Iterator[RuleFinding]:
    rank = context.option(RANK)
    count = read_count(rank)
    allowed = LORA_RANKS if _is_until(context, NO_RANK_ONE_UNTIL) else (1, *LORA_RANKS)
    if rank is not None and count is not None and not (_has_list(context) or count in allowed):
        yield RuleFinding(
            subject=rank.flag,
            expected=f"one of {', '.join(map(str, allowed))}",
            seen=str(rank.value),
            where=rank.where,
            fix=f"write the next larger one: {next((n for n in allowed if n >= count), 512)}",
        )
    cached = context.option("max-cpu-loras")
    loras = read_count(context.option("max-loras")) or 1
    kept = read_count(cached)
    if cached is not None and kept and 0 < kept < loras:
        yield RuleFinding(
            subject=cached.flag,
            expected=f"at least max-loras, {loras}",
            seen=str(cached.value),
            where=cached.where,
            fix="raise max-cpu-loras, or remove it",
        )
    yield from _check_lora_batch(context)


def _has_list(context: RuleContext) -> bool:
    """Return whether the ranks of the vLLM that will run are listed: the rule `value` has them."""
    table = load_option_types()
    listed = str(parse_version(context.version)) == table.release and RANK in table.values
    return RANK in context.facts.values or listed


def _check_lora_batch(context: RuleContext) -> Iterator[RuleFinding]:
    batch, requests = context.option("max-num-batched-tokens"), context.option("max-num-seqs")
    size, most = read_count(batch), read_count(requests)
    tokens = context.draft.get("num_speculative_tokens")
    if context.enabled_option("enable-lora") is None or not isinstance(tokens, int):
        return
    if batch is not None and size is not None and most and size < most * (tokens + 1):
        yield RuleFinding(
            subject=batch.flag,
            expected=f"at least {most} x {tokens + 1} with LoRA and drafts",
            seen=str(batch.value),
            where=batch.where,
            fix=f"write max-num-batched-tokens: {most * (tokens + 1)}, or lower max-num-seqs",
        )


def _check_kv_transfer(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("kv-transfer-config")
    config: Mapping[str, Any] = parse_json_object(option.value if option else None)
    if option is None or not config.get("kv_connector"):
        return
    role = config.get("kv_role")
    if role not in ("kv_producer", "kv_consumer", "kv_both"):
        yield RuleFinding(
            subject="kv_role in kv-transfer-config",
            expected="kv_producer, kv_consumer or kv_both",
            seen=str(role or "none"),
            where=option.where,
            fix="add kv_role: kv_both, or what the connector's document has",
        )


def _check_aligned_states(context: RuleContext) -> Iterator[RuleFinding]:
    mode = context.option("mamba-cache-mode")
    chunks = context.option("enable-chunked-prefill")
    if mode is None or str(mode.value) != "align":
        return
    if chunks is not None and chunks.value is False:
        yield RuleFinding(
            subject=mode.flag,
            expected="chunked prefill, for the mode align",
            seen="enable-chunked-prefill: false",
            where=mode.where,
            fix="remove enable-chunked-prefill, or mamba-cache-mode",
        )
    if context.enabled_option("disable-chunked-mm-input") is not None:
        yield RuleFinding(
            subject=mode.flag,
            expected="no disable-chunked-mm-input, for the mode align",
            seen="disable-chunked-mm-input: true",
            where=mode.where,
            fix="remove disable-chunked-mm-input, or mamba-cache-mode",
        )


def _check_mamba_block_size(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("mamba-block-size")
    prefixes = context.option("enable-prefix-caching")
    old = _is_until(context, NO_PREFIXES_UNTIL)
    by_default = prefixes is None and bool(context.version) and not old
    if option is None or context.enabled_option("enable-prefix-caching") or by_default:
        return
    if read_count(option) == read_count(context.option("max-model-len")):
        return  # one state for a sequence, as vLLM has without prefix caching
    unsure = prefixes is None and not context.version
    yield RuleFinding(
        subject=option.flag,
        expected="enable-prefix-caching: true as well",
        seen="mamba-block-size without prefix caching",
        where=option.where,
        fix="set enable-prefix-caching: true, or remove mamba-block-size",
        severity=Severity.WARNING if unsure else Severity.ERROR,
    )


RULES = (
    Rule(
        id="eplb",
        why="vLLM exits when it reads its options: it balances experts only among ranks",
        source="vLLM's config/parallel.py, 0.10 to 0.32; vllm-project/vllm#21102",
        find=_check_balanced_experts,
    ),
    Rule(
        id="async_scheduling",
        why="vLLM exits when it reads its options: these drafts are made on the CPU",
        source="vLLM's config/vllm.py, 0.11 to 0.32; engine/arg_utils.py, 0.10",
        find=_check_async_scheduling,
    ),
    Rule(
        id="exclusive",
        why="vLLM exits when it reads its options: they are mutually exclusive",
        source="vLLM's engine/arg_utils.py, 0.16 to 0.32",
        find=_check_exclusive_options,
    ),
    Rule(
        id="graph_sizes",
        why="vLLM exits where the sizes of CUDA graphs and their maximum are inconsistent",
        source="vLLM's config/vllm.py, _set_cudagraph_sizes, 0.16 to 0.32",
        find=_check_graph_sizes,
    ),
    Rule(
        id="lora",
        why="vLLM exits when it reads its options: there is no kernel of that rank, or too little "
        "room for adapters",
        source="vLLM's config/lora.py and engine/arg_utils.py, 0.10 to 0.32",
        find=_check_lora,
    ),
    Rule(
        id="kv_transfer",
        why="vLLM exits when it reads its options: a connector needs a role",
        source="vLLM's config/kv_transfer.py, 0.10 to 0.32",
        find=_check_kv_transfer,
    ),
    Rule(
        id="mamba_align",
        why="vLLM stops while it starts: it aligns chunks of a prompt with the states it keeps",
        source="vLLM's model_executor/models/config.py and config/vllm.py, 0.32.0",
        find=_check_aligned_states,
    ),
    Rule(
        id="mamba_block",
        why="vLLM refuses mamba-block-size without prefix caching, which hybrid models have by "
        "default since 0.26",
        source="vLLM's config/vllm.py, 0.11 to 0.32; AEON-7/Qwen3.6-27B-AEON#12",
        find=_check_mamba_block_size,
    ),
)
