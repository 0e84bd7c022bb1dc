"""Failures of speculative decoding: MTP, EAGLE, drafts, and the CUDA graphs that they need."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import Signature

ROWS = (
    Signature(
        id="speculation-options",
        pattern=(
            r"num_speculative_tokens was provided (?:but )?without speculative[_ ]model"
            r"|Expected both speculative_model and num_speculative_tokens to be provided"
            r"|num_speculative_tokens must be provided with speculative model"
            r"|[Aa] speculative model was provided, but `num_speculative_tokens` was not"
            r"|num_speculative_tokens:\d{1,6} must be divisible by n_predict=\d{1,6}"
            r"|speculative_draft_tensor_parallel_size=\d{1,4} cannot be other value than"
            r"|'tensor_parallel_size' is not a valid argument in the speculative_config"
            r"|Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be the same"
        ),
        cause=(
            "speculative-config does not fit the model: it has no layers for speculation, the "
            "draft is not named, or the number of tokens or the draft's --tp is not allowed."
        ),
        fix=(
            "Take speculative-config from the model's card: method (mtp, eagle3, draft_model), "
            "model for a separate draft, num_speculative_tokens. Leave draft_tensor_parallel_size "
            "out; remove speculative-config to start without."
        ),
        source=(
            "vllm-project/vllm PR#12755; vllm-project/vllm#5893; vllm-project/vllm#10483; "
            "vLLM's config/speculative.py, 0.28.0"
        ),
        leads_to=("config-invalid",),
        sample="ValueError: num_speculative_tokens was provided but without speculative model.",
        near_miss="speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=2)",
    ),
    Signature(
        id="draft-vocabulary",
        pattern=(
            r"Target and draft model should have the same vocabulary size"
            r"|assert all\(vocab_sizes\[0\] == vocab_size for vocab_size in vocab_sizes\)"
            r"|VocabMapping: .{1,200}cannot safely map"
        ),
        cause="The draft and the model have vocabularies of different sizes.",
        fix=(
            "Use a draft that was made for this model (its card names one), or set "
            "use_heterogeneous_vocab: true in speculative-config where this vLLM has it."
        ),
        source="vllm-project/vllm#5203; vllm-project/vllm#14939",
        leads_to=("config-invalid", "engine-start-failed"),
        sample=(
            "ValueError: Target and draft model should have the same vocabulary size. Target model "
            "vocab_size=152064. Draft model vocab_size=151936."
        ),
        near_miss="Target and draft model share the embedding",
    ),
    Signature(
        id="draft-mask-token",
        pattern=(
            r"[Ff]or parallel drafting, the draft model config must have"
            r"|[Mm]odel config must specify `dflash_config\.mask_token_id`"
        ),
        cause=(
            "The config.json of the draft, or of a model that has its own, names no token for "
            "what is not yet guessed (mask_token_id), or not in a way that this vLLM knows."
        ),
        fix=(
            "Use a checkpoint that has a draft of the method in speculative-config (dflash, "
            "dspark, pard), or the image that its card names, or remove speculative-config."
        ),
        source="eugr/spark-vllm-docker#378; zmarty/model-scripts-rtx-pro-6000",
        leads_to=("engine-start-failed",),
        sample=(
            "ValueError: For parallel drafting, the draft model config must have "
            "`dflash_config.mask_token_id`, `mask_token_id` or `pard_token` specified."
        ),
        near_miss="mask_token_id=151669",
    ),
    Signature(
        id="draft-kind-unsupported",
        pattern=(
            r"Speculative [Dd]ecoding with draft models? (?:or parallel drafting )?does not "
            r"support (?:M-RoPE|multimodal)"
            r"|[Ss]peculative decoding with draft model is not supported"
            r"|Attention metadata for layer \S{1,120} does not have non-causal support"
            r"|Unsupported attention metadata type for speculative decoding"
            r"|Unsupported model_type \S{1,60} for \w{1,20} speculator"
            r"|Unsupported speculative method: '\w{1,60}'"
        ),
        cause="This vLLM cannot speculate with this draft and this model or attention backend.",
        fix=(
            "Set another attention-backend in vllm_args (FLASH_ATTN, TRITON_ATTN), use a newer "
            "image, or remove speculative-config."
        ),
        source="vllm-project/vllm-ascend#14453; vllm-project/vllm#31883",
        leads_to=("config-invalid", "engine-start-failed"),
        sample=(
            "NotImplementedError: Speculative Decoding with draft models or parallel drafting does "
            "not support M-RoPE yet"
        ),
        near_miss="Speculative decoding with draft models is enabled",
    ),
    Signature(
        id="speculation-above-batch",
        pattern=(
            r"max_num_scheduled_tokens is set to (?:-\d|\d{1,9}\b.{0,80}does not allow any tokens)"
            r"|enough slots to schedule a token and support the speculative decoding"
            r"|Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens"
        ),
        cause=(
            "The speculative tokens of max-num-seqs requests fill a batch: nothing is left of "
            "max-num-batched-tokens for the requests themselves."
        ),
        fix=(
            "Raise max-num-batched-tokens above max-num-seqs times num_speculative_tokens in "
            "vllm_args, or lower max-num-seqs or num_speculative_tokens."
        ),
        source="vllm-project/vllm#50708; albond/DGX_Spark_Qwen3.5-122B-A10B-AR-INT4",
        leads_to=("config-invalid",),
        sample=(
            "max_num_scheduled_tokens is set to -1792 based on the speculative decoding settings, "
            "which does not allow any tokens to be scheduled."
        ),
        near_miss="max_num_scheduled_tokens is set to 1792",
    ),
    Signature(
        id="speculation-with-pp",
        pattern=(
            r"PP\+async expects sampled_token_ids to have shape"
            r"|[Ss]peculative decoding is not (?:yet )?supported with pipeline parallelism"
            r"|[Pp]ipeline parallelism is not supported (?:yet )?with speculative decoding"
            r"|'GPUModelRunner' object has no attribute 'drafter'"
        ),
        cause="This vLLM cannot speculate and divide the model by --pp at once.",
        fix="Use `--tp` instead of --pp, or remove speculative-config, or try a newer image.",
        source="vllm-project/vllm#49355; vllm-project/vllm PR#49442",
        sample=(
            "RuntimeError: Worker failed with error 'PP+async expects sampled_token_ids to have "
            "shape [num_reqs, 1]'"
        ),
        near_miss="'GPUModelRunner' object has no attribute 'attn_metadata_builder'",
    ),
    Signature(
        id="speculation-of-hybrid-model",
        pattern=(
            r"assert \(?m\.num_reqs \* \(self\.num_spec \+ 1\) <= m\.num_actual_tokens"
            r"|assert num_required_blocks > len\(req_blocks\)"
            r"|num_required_blocks \d{1,9} < len\(req_blocks\) \d"
        ),
        cause=(
            "This vLLM miscounts the tokens or blocks of a model that mixes attention with Mamba "
            "or linear attention (GDN) while it speculates (MTP)."
        ),
        fix=(
            "Use another num_speculative_tokens, no-enable-prefix-caching: true, or a newer image; "
            "without speculative-config the model serves."
        ),
        source="vllm-project/vllm#25647; vllm-project/vllm#43382; vllm-project/vllm#39271",
        leads_to=("engine-start-failed", "kv-cache-not-planned", "step-failed", "kernel-failed"),
        sample="    assert num_required_blocks > len(req_blocks)\nAssertionError",
        near_miss="num_required_blocks=3 req_blocks=4",
    ),
    Signature(
        id="cuda-graph-sizes",
        pattern=(
            r"Can't determine cudagraph shapes that are both a multiple of \d{1,6}"
            r"|No valid cudagraph sizes after rounding to multiple of \d{1,6}"
            r"|customized max_cudagraph_capture_size\(=\d{1,9}\) should be consistent"
        ),
        cause=(
            "No size of CUDA graphs, or none of those in vllm_args, fits both the speculative "
            "tokens and --tp."
        ),
        fix=(
            "Remove cudagraph_capture_sizes from vllm_args, or choose num_speculative_tokens so "
            "that it plus one is a multiple of --tp."
        ),
        source="vllm-project/vllm PR#29036; vllm-project/vllm PR#28315",
        leads_to=("config-invalid", "engine-start-failed"),
        sample=(
            "ValueError: Can't determine cudagraph shapes that are both a multiple of 3 "
            "(num_speculative_tokens + 1) required by spec-decode and 4 (tensor_parallel_size)"
        ),
        near_miss="cudagraph_capture_sizes: [1, 2, 4, 8]",
    ),
    Signature(
        id="cuda-graph-mode",
        pattern=(
            r"CUDAGraphMode\.(?P<mode>\w{1,40}) is not supported with (?P<backend>\w{1,80}) backend"
            r"(?! .{0,120}setting cudagraph_mode)"
        ),
        cause="{backend} cannot be part of CUDA graphs in the mode {mode}.",
        fix=(
            "Remove cudagraph_mode from compilation-config in vllm_args, or set it to PIECEWISE; "
            "another attention-backend may support {mode}."
        ),
        source="vllm-project/vllm PR#23200; vllm-project/vllm#36203",
        leads_to=("config-invalid", "engine-start-failed"),
        sample=(
            "ValueError: CUDAGraphMode.FULL is not supported with CutlassMLAMetadataBuilder "
            "backend (support: AttentionCGSupport.NEVER); please try cudagraph_mode=PIECEWISE"
        ),
        near_miss=(
            "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with MLACommonMetadataBuilder "
            "backend (support: AttentionCGSupport.NEVER); setting cudagraph_mode=PIECEWISE because "
            "attention is compiled piecewise"
        ),
    ),
    Signature(
        id="experts-of-a-dense-model",
        pattern=(r"Number of experts in the model must be greater than 0 when expert parallelism"),
        cause=(
            "enable-expert-parallel is set, and the model has no experts; it can be the draft of "
            "speculative-config, which gets the same options."
        ),
        fix="Remove enable-expert-parallel or speculative-config from vllm_args.",
        source="vllm-project/vllm-ascend PR#15354; vllm-project/vllm PR#56930",
        leads_to=("config-invalid",),
        sample=(
            "Value error, Number of experts in the model must be greater than 0 when expert "
            "parallelism is enabled."
        ),
        near_miss="Number of experts in the model: 128",
    ),
)
