"""Names that vLLM looks up while it starts: keys inside JSON options, and modes.

Forks and plugins add keys and modes, so a key is a finding only where a known one is similar.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.subject import RuleContext
from sparkfleet.spelling import find_similar
from sparkfleet.vllm.options import parse_json_object

# The fields of vLLM's config/speculative.py and compilation.py, 0.32.0.
KEYS = {
    "speculative-config": (
        *("attention_backend", "code_revision", "disable_eagle_block_drop"),
        *("disable_padded_drafter_batch", "draft_load_config", "draft_sample_method"),
        *("draft_tensor_parallel_size", "dspark_draft_topk", "enable_adaptive_verification"),
        *("enforce_eager", "index_share_for_mtp_iteration", "kv_cache_dtype", "max_model_len"),
        *("method", "model", "moe_backend", "num_speculative_tokens"),
        *("num_speculative_tokens_per_batch_size", "parallel_drafting", "prompt_lookup_max"),
        *("prompt_lookup_min", "quantization", "rejection_sample_method", "revision"),
        *("suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor"),
        *("suffix_decoding_max_tree_depth", "suffix_decoding_min_token_prob"),
        *("synthetic_acceptance_length", "synthetic_acceptance_rates", "tensor_parallel_size"),
        *("use_heterogeneous_vocab", "use_local_argmax_reduction"),
    ),
    "compilation-config": (
        *("backend", "cache_dir", "compile_cache_save_format", "compile_mm_encoder"),
        *("compile_ranges_endpoints", "compile_sizes", "cudagraph_capture_sizes"),
        *("cudagraph_copy_inputs", "cudagraph_decoder_replay", "cudagraph_mm_encoder"),
        *("cudagraph_mode", "cudagraph_num_of_warmups", "cudagraph_specialize_lora"),
        *("custom_ops", "debug_dump_path", "dynamic_shapes_config", "fast_moe_cold_start"),
        *("inductor_compile_config", "inductor_passes", "level", "max_cudagraph_capture_size"),
        *("mode", "pass_config", "splitting_ops", "use_inductor_graph_partition"),
    ),
}
MODES = {
    "config-format": ("auto", "hf", "mistral"),
    "tokenizer-mode": (
        *("auto", "cohere", "deepseek_v32", "deepseek_v4", "deepseek_v41", "hf", "inkling"),
        *("kimi_audio", "kimi_k3", "mistral", "slow"),  # slow: up to 0.1x
    ),
}


def _check_keys(context: RuleContext) -> Iterator[RuleFinding]:
    for name, known in KEYS.items():
        option = context.option(name)
        if option is None:
            continue
        for key in parse_json_object(option.value):
            similar = None if key in known else find_similar(str(key), known)
            if similar:
                yield RuleFinding(
                    subject=f"{key} in {name}",
                    expected=similar,
                    seen=str(key),
                    where=option.where,
                    fix=f"rename it to {similar}, or list `config_key` in vllm_accept",
                    severity=Severity.WARNING,
                )


def _check_modes(context: RuleContext) -> Iterator[RuleFinding]:
    for name, known in MODES.items():
        option = context.option(name)
        if option is not None and str(option.value) not in known:
            yield RuleFinding(
                subject=option.flag,
                expected=f"one of {', '.join(known)}",
                seen=str(option.value),
                where=option.where,
                fix=f"write one of these, or remove {name}; a plugin may have more",
                severity=Severity.WARNING,
            )


RULES = (
    Rule(
        id="config_key",
        why="vLLM exits when it reads its options: there is no such key",
        source="vLLM's config/speculative.py and compilation.py, 0.32.0",
        find=_check_keys,
    ),
    Rule(
        id="config_mode",
        why="vLLM exits when it reads the model: there is no such mode",
        source="vLLM's transformers_utils/config.py and tokenizers/registry.py, 0.32.0",
        find=_check_modes,
    ),
)
