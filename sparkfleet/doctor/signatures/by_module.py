"""Failures that no other row explains, by the part of the engine that raised the exception."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

# The lines between a frame and its exception: the code, and the marks below it.
_CODE = r"(?:(?! *File \")[ ~^|].{0,400}\n){0,8}"
# A message that ends with a colon goes on in the next line.
_REASON = (
    r"(?P<reason>(?:\w{1,40}\.){0,6}[A-Z]\w{1,60}(?:Error|Exception)"
    r"(?:$|: (?:.{0,400}: ?\n.{1,300}|.{0,400})))"
)


def _raised_in(files: str, functions: str = r"[\w<>]{1,80}") -> str:
    return rf"{files}\.py\", line \d{{1,6}}, in {functions}\n{_CODE}{_REASON}"


ROWS = (
    Signature(
        id="options-refused",
        pattern=_raised_in(r"vllm/(?:config(?:/\w{1,40})?|engine/arg_utils|platforms/\w{1,40})"),
        cause="vLLM rejects its options: {reason}.",
        fix="Correct vllm_args in the recipe, or use an image whose vLLM accepts them.",
        source="vLLM's config and engine/arg_utils.py, 0.32.0",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/vllm/config/parallel.py", line 9, in __post_init__\n'
            "    raise ValueError(\n"
            "ValueError: data_parallel_size must divide the number of hosts"
        ),
        near_miss=(
            '  File "/x/vllm/config/parallel.py", line 9, in __post_init__\n'
            '  File "/x/vllm/utils.py", line 3, in check\n'
            "ValueError: x"
        ),
    ),
    Signature(
        id="weights-not-loaded",
        pattern=_raised_in(
            r"vllm/model_executor/(?:model_loader|models|layers|parameter)[\w/]{0,120}",
            r"(?!create_weights\b)\w{0,40}(?:load|weight)\w{0,60}",
        ),
        cause="vLLM cannot load the weights: {reason}.",
        fix=(
            "Compare quantization and load-format in vllm_args with the model's card, check the "
            "files with `{task:weights.verify}`, and use the image that the card names."
        ),
        source="vLLM's model_executor/model_loader, 0.32.0",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/vllm/model_executor/models/a.py", line 9, in load_weights\n'
            "    param = params[name]\n"
            "KeyError: 'lm_head.extra'"
        ),
        near_miss=(
            "  File \"/x/vllm/model_executor/models/a.py\", line 9, in forward\nKeyError: 'a'"
        ),
    ),
    Signature(
        id="model-not-built",
        pattern=_raised_in(
            r"vllm/model_executor/(?:models|layers)/[\w/]{1,120}", r"(?:__init__|create_weights)"
        ),
        cause="vLLM cannot build the model with these options: {reason}.",
        fix=(
            "Try `--tp 1` or another quantization in vllm_args, and the image that the model's "
            "card names."
        ),
        source="vLLM's model_executor/models, 0.32.0",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/vllm/model_executor/models/a.py", line 9, in __init__\n'
            "    assert self.heads % tp == 0\n"
            "AssertionError"
        ),
        near_miss='  File "/x/vllm/v1/worker/a.py", line 9, in __init__\nAssertionError',
    ),
    Signature(
        id="kernel-failed",
        pattern=_raised_in(
            r"(?:flashinfer|triton|tvm_ffi|deep_gemm|vllm/(?:_custom_ops|v1/attention|utils/deep_gemm"
            r"|utils/flashinfer|third_party|vllm_flash_attn"
            r"|model_executor/(?:kernels|layers/(?:quantization|fused_moe))))[\w/]{0,160}",
            r"(?!__init__|create_weights|<module>|\w{0,40}load)[\w<>]{1,80}",
        ),
        cause="A kernel of the engine failed: {reason}.",
        fix=(
            "Set another attention-backend or moe-backend in vllm_args, or use an image that was "
            "tested with this model on the GB10."
        ),
        source="vllm-project/vllm#46726; vLLM's v1/attention, 0.32.0",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/flashinfer/decode.py", line 2451, in decode\n'
            '    raise ValueError("bad")\n'
            "ValueError: kv_cache_sf must be provided for NVFP4 KV cache."
        ),
        near_miss='  File "/x/vllm/v1/engine/core.py", line 9, in run\nValueError: x',
    ),
    Signature(
        id="model-files-unread",
        pattern=_raised_in(
            r"(?:vllm/(?:transformers_utils|tokenizers)|transformers|huggingface_hub)/[\w/]{1,120}"
        ),
        cause="The model's configuration or tokenizer cannot be read: {reason}.",
        fix=(
            "Check the files with `{task:weights.verify}`, and vllm_model in the recipe. If they "
            "are whole, the model needs another transformers: use the image that its card names."
        ),
        source="vLLM's transformers_utils/config.py, 0.32.0",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/transformers/configuration_utils.py", line 9, in from_dict\n'
            "    config = cls(**config_dict)\n"
            "ValueError: bad field"
        ),
        near_miss='  File "/x/requests/models.py", line 9, in raise_for_status\nHTTPError: x',
    ),
    Signature(
        id="adapter-not-loaded",
        pattern=_raised_in(r"vllm/lora/[\w/]{1,120}"),
        cause="vLLM cannot load or apply a LoRA adapter: {reason}.",
        fix=(
            "Compare adapter_config.json with the model (base_model_name_or_path, r, "
            "target_modules), and start without lora-modules to see whether the model itself "
            "serves. Merged into the model, the adapter needs no support."
        ),
        source="vllm-project/vllm#30690; vLLM's lora, 0.28.0",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/vllm/lora/model_manager.py", line 9, in activate_adapter\n'
            "    raise ValueError(\n"
            "ValueError: No free lora slots"
        ),
        near_miss='  File "/x/vllm/v1/worker/a.py", line 9, in add_lora\nValueError: x',
    ),
    Signature(
        id="request-not-served",
        pattern=_raised_in(
            r"(?:vllm/(?:renderers|multimodal|tool_parsers|reasoning|parser|inputs|v1/structured_output"
            r"|v1/engine/(?:input_)?processor|entrypoints/(?:openai|chat_utils))"
            r"|mistral_common|xgrammar|llguidance)[\w/]{0,120}"
        ),
        cause="A request was not served: {reason}.",
        fix=(
            "Compare the request with the model's card (roles, tools, images, response_format), "
            "and tool-call-parser, reasoning-parser and chat-template in vllm_args; a newer image "
            "may not have the error."
        ),
        source="vllm-project/vllm#32213; vllm-project/vllm#32436",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/vllm/multimodal/parse.py", line 9, in parse\n'
            "    raise ValueError(\n"
            "ValueError: Unsupported media type"
        ),
        near_miss='  File "/x/vllm/v1/worker/a.py", line 9, in execute\nValueError: x',
    ),
    Signature(
        id="kv-cache-not-planned",
        pattern=_raised_in(r"vllm/v1/core/[\w/]{1,80}"),
        cause="vLLM cannot plan or give out the KV cache: {reason}.",
        fix=(
            "Remove block-size, kv-cache-dtype, mamba-block-size, speculative-config and "
            "kv-transfer-config from vllm_args, and add them again one by one, or use a newer "
            "image."
        ),
        source="eugr/spark-vllm-docker#296; vllm-project/vllm PR#41834",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/vllm/v1/core/single_type_kv_cache_manager.py", line 9, in allocate\n'
            "    assert num_required_blocks > len(req_blocks)\n"
            "AssertionError"
        ),
        near_miss='  File "/x/vllm/v1/engine/core.py", line 9, in step\nValueError: x',
    ),
    Signature(
        id="step-failed",
        pattern=_raised_in(
            r"vllm/(?:v1/(?:worker|spec_decode|sample)/|model_executor/models/(?!registry)|models/)"
            r"[\w/]{1,120}",
            r"(?!__init__|create_weights|<module>|\w{0,40}(?:load|weight))[\w<>]{1,80}",
        ),
        cause="A step of the engine failed: {reason}.",
        fix=(
            "Start with `enforce-eager: true`, then without speculative-config and LoRA, to see "
            "which part fails, and use the image that the model's card names."
        ),
        source="vllm-project/vllm PR#18435; vllm-project/vllm PR#12449",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            '  File "/x/vllm/v1/worker/gpu_model_runner.py", line 9, in sample_tokens\n'
            "    assert sampled_token_ids.dim() == 2\n"
            "AssertionError"
        ),
        near_miss='  File "/x/vllm/v1/engine/core.py", line 9, in step\nAssertionError',
    ),
)
