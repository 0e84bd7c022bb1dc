"""Options against the checkpoint's own config.json, and that of its draft; silent without them."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.bounds import read_count
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.options import parse_json_object
from sparkfleet.vllm.releases import parse_version

NO_FLOAT16 = ("gemma2", "gemma3", "gemma3_text", "glm4")
HALF = ("half", "float16")
HALF_ONLY_UNTIL = {"awq": Version("0.23.0"), "gptq": Version("0.21.0")}
# Formats of checkpoints, of which vLLM takes one for no other.
FORMATS = ("awq", "gptq", "fp8", "mxfp4", "bitsandbytes", "gguf", "modelopt", "compressed-tensors")
OWN_RULES = ("modelopt", "compressed-tensors")
DIVIDED_ENCODERS = ("Glm4v", "GlmOcr", "Qwen2VL", "Qwen2_5_VL", "Qwen3VL")
UNSTAGED = (  # classes without SupportsPP in every release from 0.10.2 to 0.32.0 that has them
    *("AriaForConditionalGeneration", "CohereAsrForConditionalGeneration"),
    *("DiffusionGemmaForBlockDiffusion", "Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"),
    *("HrmTextForCausalLM", "IQuestLoopCoderForCausalLM", "Idefics3ForConditionalGeneration"),
    *("Mamba2ForCausalLM", "NemotronH_Nano_Omni_Reasoning_V3", "NemotronH_Nano_VL_V2"),
    *("NemotronH_Omni_Reasoning_V3", "NemotronH_Super_Omni_Reasoning_V3"),
    *("NemotronParseForConditionalGeneration", "PaddleOCRVLForConditionalGeneration"),
    *("Phi4MMForCausalLM", "SmolVLMForConditionalGeneration", "WhisperForConditionalGeneration"),
    "Zamba2ForCausalLM",
)
DRAFTS_STAGED_SINCE = Version("0.31.0")  # vllm#50514 and others
WITHOUT_MTP = (  # classes of which no release of 0.10 to 0.32 makes an MTP draft
    *("GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "GptOssForCausalLM"),
    *("LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM"),
    *("Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"),
)
UNIFIED_LAST = Version("0.26.0")  # unify_hybrid_kv_cache_specs
HYBRID_WHOLE_UNTIL = Version("0.25.1")  # HybridKVCacheCoordinator
HYBRID_TRANSFER_SINCE = Version("0.22.0")
LOOKUPS = ("ngram", "[ngram]", "ngram_gpu", "suffix")
MOE_RANK = 128


def _check_dtype(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("dtype")
    kind = context.facts.checkpoint.model_type
    if option is not None and kind in NO_FLOAT16 and context.value("dtype") in HALF:
        yield RuleFinding(
            subject=option.flag,
            expected=f"bfloat16, for a model of the type {kind}",
            seen=str(option.value),
            where=option.where,
            fix="remove dtype: vLLM then takes bfloat16",
        )
    method = context.value("quantization")
    version = parse_version(context.version)
    until = HALF_ONLY_UNTIL.get(method)
    dtype = context.value("dtype")
    own = context.facts.checkpoint.dtype if dtype in ("", "auto") else dtype
    if version is None or until is None or version > until or own != "bfloat16":
        return
    yield RuleFinding(
        subject="--quantization",
        expected=f"{method}_marlin, or unset: vLLM's own {method} takes only float16",
        seen=f"{method} with {own}",
        where=context.at("quantization"),
        fix="remove quantization: vLLM then takes a kernel for bfloat16",
    )


def _check_experts(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.enabled_option("enable-expert-parallel")
    if option is not None and context.facts.checkpoint.dense:
        yield RuleFinding(
            subject=option.flag,
            expected="unset: config.json names no experts",
            seen="it set",
            where=option.where,
            fix="remove enable-expert-parallel from vllm_args",
        )


def _check_context_heads(context: RuleContext) -> Iterator[RuleFinding]:
    """Compare as verify_with_parallel_config does: ranks share a KV head's context."""
    option = context.option("decode-context-parallel-size")
    count = read_count(option)
    facts = context.facts.checkpoint
    heads, kv_heads = facts.heads, facts.kv_heads
    if option is None or not count or count < 2 or context.facts.latent is not False:
        return
    if not heads or not kv_heads:
        return
    most = context.tp // kv_heads if context.tp > kv_heads else 1
    if count > most or (heads // kv_heads) % count:
        yield RuleFinding(
            subject=option.flag,
            expected=f"{most} at most, for --tp {context.tp} and {kv_heads} KV heads"
            if count > most
            else f"a divisor of the {heads // kv_heads} query heads of a KV head",
            seen=str(option.value),
            where=option.where,
            fix="lower decode-context-parallel-size, or remove it",
        )


def _check_format(context: RuleContext) -> Iterator[RuleFinding]:
    given, actual = context.value("quantization"), context.facts.format
    known = given in FORMATS and actual in FORMATS and actual not in OWN_RULES
    if known and given != actual and context.option("hf-overrides") is None:
        yield RuleFinding(
            subject="--quantization",
            expected=f"{actual}, as in config.json, or unset",
            seen=given,
            where=context.at("quantization"),
            fix="remove quantization from vllm_args",
        )


def _check_draft(context: RuleContext) -> Iterator[RuleFinding]:
    draft = context.draft
    facts = context.facts.checkpoint
    method = str(draft.get("method") or "").lower()
    if method != "draft_model":
        return
    ranks = draft.get("draft_tensor_parallel_size")
    if type(ranks) is int and ranks != context.tp:
        yield RuleFinding(
            subject="draft_tensor_parallel_size in speculative-config",
            expected=f"{context.tp}, as --tp, or unset",
            seen=str(ranks),
            where=context.at("speculative-config"),
            fix="remove draft_tensor_parallel_size",
        )
    mapped = draft.get("use_heterogeneous_vocab") is True
    if facts.vocab and facts.draft_vocab and facts.vocab != facts.draft_vocab and not mapped:
        yield RuleFinding(
            subject="the draft model",
            expected=f"a vocabulary of {facts.vocab}, as the model's",
            seen=str(facts.draft_vocab),
            where=context.at("speculative-config"),
            fix=(
                "use a draft model with the same vocabulary; newer vLLM has use_heterogeneous_vocab"
            ),
        )


def _check_encoder(context: RuleContext) -> Iterator[RuleFinding]:
    heads = context.facts.checkpoint.encoder_heads
    whole = context.value("mm-encoder-tp-mode") == "data"
    limits = context.option("limit-mm-per-prompt")
    counts = parse_json_object(limits.value if limits else None).values()
    none = bool(counts) and all(count == 0 for count in counts)  # then no encoder is loaded
    unused = context.enabled_option("language-model-only") is not None or whole or none
    divided = context.architecture.startswith(DIVIDED_ENCODERS)
    if divided and heads and heads % context.tp and not unused:
        yield RuleFinding(
            subject="--tp",
            expected=f"a divisor of the {heads} heads of its image encoder",
            seen=str(context.tp),
            where=context.at("mm-encoder-tp-mode", "vllm_args", "vllm_model"),
            fix="write in vllm_args: mm-encoder-tp-mode: data",
        )


def _check_stages(context: RuleContext) -> Iterator[RuleFinding]:
    if context.pp == 1:
        return
    if context.architecture in UNSTAGED:
        yield RuleFinding(
            subject="--pp",
            expected=f"1, for {context.architecture}",
            seen=str(context.pp),
            where=context.at("vllm_model"),
            fix="divide it by --tp",
        )
    method = str(context.draft.get("method") or "").lower()
    version = parse_version(context.version)
    recent = version is not None and version >= DRAFTS_STAGED_SINCE
    if context.draft and method not in LOOKUPS and not recent:
        yield RuleFinding(
            subject="speculative-config",
            expected="no draft model, with --pp",
            seen=f"{method or 'a draft'} with --pp {context.pp}",
            where=context.at("speculative-config"),
            fix="remove speculative-config, or divide the model by --tp",
            severity=Severity.WARNING,
        )


def _check_hybrid(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("kv-transfer-config")
    config = parse_json_object(option.value if option else None)
    version = parse_version(context.version)
    old = version is not None and version < HYBRID_TRANSFER_SINCE
    if (
        option is not None
        and config.get("kv_connector")
        and context.facts.checkpoint.hybrid
        and old
    ):
        yield RuleFinding(
            subject=option.flag,
            expected="unset, for a model whose layers keep states of a fixed size",
            seen=str(config["kv_connector"]),
            where=option.where,
            fix="remove kv-transfer-config, or run vLLM 0.22 or later with a connector for it",
            severity=Severity.WARNING,
        )


def _check_own_draft(context: RuleContext) -> Iterator[RuleFinding]:
    draft = context.draft
    method = str(draft.get("method") or "").lower()
    if method.endswith("mtp") and not draft.get("model") and context.architecture in WITHOUT_MTP:
        yield RuleFinding(
            subject="speculative-config",
            expected=f"another method than {method}: {context.architecture} has no MTP layers",
            seen=method,
            where=context.at("speculative-config"),
            fix="use a separate draft model (eagle3) or ngram, or remove speculative-config",
        )


def _check_old_cache_type(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("kv-cache-dtype")
    old = option is not None and context.value("kv-cache-dtype") == "fp8_e5m2"
    if option is not None and old and context.facts.format in ("fp8", "modelopt"):
        yield RuleFinding(
            subject=option.flag,
            expected="fp8 or auto, for a checkpoint in FP8",
            seen="fp8_e5m2",
            where=option.where,
            fix="write in vllm_args: kv-cache-dtype: fp8",
        )


def _check_hybrid_cache(context: RuleContext) -> Iterator[RuleFinding]:
    """Check what divides or joins the KV cache of layers that keep states of a fixed size."""
    if not context.facts.checkpoint.hybrid:
        return
    unified = context.enabled_option("disable-hybrid-kv-cache-manager")
    version = parse_version(context.version)
    if unified is not None:
        known = version is not None and version <= UNIFIED_LAST
        yield RuleFinding(
            subject=unified.flag,
            expected="unset, for a model whose layers keep states of a fixed size",
            seen="it set",
            where=unified.where,
            fix="remove disable-hybrid-kv-cache-manager",
            severity=Severity.ERROR if known else Severity.WARNING,
        )
    shared = context.option("decode-context-parallel-size")
    prefixes = context.enabled_option("enable-prefix-caching")
    old = version is not None and version <= HYBRID_WHOLE_UNTIL
    if shared is not None and (read_count(shared) or 1) > 1 and prefixes is not None and old:
        yield RuleFinding(
            subject=shared.flag,
            expected="unset, with prefix caching of such a model before vLLM 0.26",
            seen=str(shared.value),
            where=shared.where,
            fix="remove decode-context-parallel-size or enable-prefix-caching",
        )


def _check_expert_adapters(context: RuleContext) -> Iterator[RuleFinding]:
    rank = context.option("max-lora-rank")
    facts = context.facts.checkpoint
    count = read_count(rank)
    has_experts = bool(facts.model_type) and not facts.dense
    if context.enabled_option("enable-lora") and rank and has_experts and (count or 0) > MOE_RANK:
        yield RuleFinding(
            subject=rank.flag,
            expected=f"{MOE_RANK} at most, for a mixture of experts",
            seen=str(rank.value),
            where=rank.where,
            fix=f"write max-lora-rank: {MOE_RANK}, if the adapters have no higher rank",
            severity=Severity.WARNING,
        )


RULES = (
    Rule(
        id="dtype",
        why="vLLM exits when it reads the model: it cannot compute the model in that type",
        source="vLLM's config/model.py, _check_valid_dtype; quantization/awq.py and gptq.py of "
        "0.10 to 0.23; vllm-project/vllm#28857",
        find=_check_dtype,
    ),
    Rule(
        id="dense_experts",
        why="vLLM exits when it reads the model: the number of experts must be greater than 0",
        source="vLLM's config/model.py, _verify_with_expert_parallelism, 0.10 to 0.32",
        find=_check_experts,
    ),
    Rule(
        id="context_heads",
        why="vLLM exits when it reads the model: only ranks of one KV head share its context",
        source="vLLM's config/model.py, verify_with_parallel_config, 0.11 to 0.32; "
        "vllm-project/vllm#41623",
        find=_check_context_heads,
    ),
    Rule(
        id="format",
        why="vLLM refuses a method that is not the one in the checkpoint",
        source="vLLM's config/model.py, _verify_quantization; vllm-project/vllm#19050",
        find=_check_format,
    ),
    Rule(
        id="draft_match",
        why="vLLM stops while it starts: the draft model has to match the model",
        source="vLLM's config/speculative.py and v1/spec_decode/draft_model.py, 0.16 to 0.32; "
        "vllm-project/vllm#42775, vllm-project/vllm#24322",
        find=_check_draft,
    ),
    Rule(
        id="encoder",
        why="vLLM stops while it starts: it divides the heads of the encoder among the ranks",
        source="vLLM's models/glm4_1v.py, qwen2_vl.py and qwen2_5_vl.py, 0.10 to 0.32; "
        "vllm-project/vllm#24004",
        find=_check_encoder,
    ),
    Rule(
        id="stages",
        why="vLLM exits when it reads the model: pipeline parallelism is not supported for it, or "
        "for its draft",
        source="vLLM's config/model.py, verify_with_parallel_config, 0.10 to 0.32; "
        "vllm-project/vllm#52069, vllm-project/vllm#52761, vllm-project/vllm#49355",
        find=_check_stages,
    ),
    Rule(
        id="hybrid_transfer",
        why="vLLM crashes while it starts: connectors did not know these states",
        source="vllm-project/vllm#49537, for 0.18 and 0.21",
        find=_check_hybrid,
    ),
    Rule(
        id="own_draft",
        why="vLLM exits when it reads the draft: the model has none of its own",
        source="vLLM's config/speculative.py, hf_config_override, 0.10 to 0.32",
        find=_check_own_draft,
    ),
    Rule(
        id="old_cache_type",
        why="vLLM exits with 'fp8_e5m2 kv-cache is not supported with fp8 checkpoints'",
        source="vLLM's layers/attention/attention.py, 0.14 to 0.31",
        find=_check_old_cache_type,
    ),
    Rule(
        id="hybrid_cache",
        why="vLLM stops while it starts: it cannot unify the cache of these layers, or divide it",
        source="vLLM's v1/core/kv_cache_utils.py and kv_cache_coordinator.py, 0.10 to 0.26; "
        "vllm-project/vllm#40585, 1CatAI/1Cat-vLLM#15",
        find=_check_hybrid_cache,
    ),
    Rule(
        id="expert_adapters",
        why="the kernel for adapters of experts supports no higher rank",
        source="vllm-project/vllm#55158",
        find=_check_expert_adapters,
    ),
)
