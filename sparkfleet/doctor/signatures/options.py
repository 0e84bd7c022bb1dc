"""Errors in the options, files and environment of `vllm serve`."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

# argparse prints every spelling of an option: --tensor-parallel-size/-tp
_OPTION = r"(?P<option>--?[a-zA-Z][\w/, -]{0,120})"

ROWS = (
    Signature(
        id="option-quoted-twice",
        pattern=(
            rf"argument {_OPTION}: Value (?P<value>[\\'\" ]{{0,8}}[\[{{].{{0,300}}) cannot be "
            r"converted to <function loads"
        ),
        cause="{option} arrived as {value}: a shell on the way quoted it twice.",
        fix="Set it in vllm_args as a YAML mapping; `{task:cluster.render}` shows the result.",
        source="eugr/spark-vllm-docker#111",
        near_miss="argument --max-log-len: Value x cannot be converted to <class 'int'>.",
    ),
    Signature(
        id="option-task-removed",
        pattern=r"error: unrecognized arguments: (?:\S{1,80} ){0,8}--task\b",
        cause="vLLM no longer has the option --task: models that make vectors have another one.",
        fix=(
            "Set runner: pooling in vllm_args for embeddings, ranking and rewards, with convert: "
            "embed or classify for a model that writes text; remove task."
        ),
        source="vllm-project/vllm#35603; vllm-project/vllm PR#53467",
        leads_to=("option-unknown", "vllm-usage-error"),
        sample="vllm: error: unrecognized arguments: --task embedding",
        near_miss="vllm: error: unrecognized arguments: --tasks",
    ),
    Signature(
        id="option-unknown",
        pattern=(r"error: (?:unrecognized arguments: |ambiguous option: )(?P<what>.{0,400})"),
        cause="This vLLM has no option {what}.",
        fix="Remove it from vllm_args, or use an image whose vLLM has it.",
        source="Python's argparse; spark-arena/sparkrun#287",
        near_miss="WARNING: unrecognized architecture",
    ),
    Signature(
        id="parser-unknown",
        pattern=(
            r"(?:--(?:tool-call|reasoning)-parser\b.{0,40}: invalid choice: "
            r"|[Ii]nvalid (?:tool call|reasoning) parser: |(?:Tool|Reasoning) parser )"
            r"'?(?P<name>[\w.-]{1,60})'?(?: not found| \(cho|$)"
        ),
        cause="This vLLM has no parser {name} for tool calls or reasoning.",
        fix="Use a name from the list in this line, or an image whose vLLM has {name}.",
        source="zai-org/GLM-4.5#58; vllm-project/vllm#9312",
        leads_to=("option-value-unknown", "vllm-usage-error"),
        sample=(
            "vllm serve: error: argument --tool-call-parser: invalid choice: 'glm45' (choose from "
            "'deepseek_v3', 'hermes')"
        ),
        near_miss="Tool parser 'hermes' registered",
    ),
    Signature(
        id="option-value-unknown",
        pattern=(rf"error: argument {_OPTION}: invalid choice: (?P<value>\S{{1,80}})"),
        cause="This vLLM has no value {value} for {option}.",
        fix="Use a value from the list in this line, or an image whose vLLM has it.",
        source="Python's argparse; vllm-project/vllm#9312",
        leads_to=("vllm-usage-error",),
        sample="vllm serve: error: argument --dtype: invalid choice: 'fp7' (choose from 'auto')",
        near_miss="error: argument --dtype: expected one argument",
    ),
    Signature(
        id="option-value-type",
        pattern=(
            rf"error: argument {_OPTION}: (?:invalid \w{{1,60}} value: (?P<value>.{{1,80}})"
            r"|expected (?:one|at least one) argument|ignored explicit argument .{1,80}"
            r"|Value .{0,300} cannot be converted to (?!<function loads)"
            r"|Value (?![\\'\" ]{0,8}[\[{]).{0,300} cannot be converted to)"
        ),
        cause="The value of {option} has another type than this vLLM expects.",
        fix=(
            "Correct the value in vllm_args, as a YAML mapping where vLLM takes JSON; "
            "`{task:recipes.validate} all` finds such values."
        ),
        source="vllm-project/vllm#39687; X-PLUG/MobileAgent#162",
        leads_to=("vllm-usage-error",),
        sample="vllm serve: error: argument --max-num-seqs: invalid int value: 'many'",
        near_miss="error: argument --dtype: invalid choice: 'fp7' (choose from 'auto')",
    ),
    Signature(
        id="attention-backend-unknown",
        pattern=(
            r"Unknown attention backend: '(?P<name>[^'\n]{1,80})'"
            r"|Invalid attention backend(?: for \w{1,20})?"
        ),
        cause="This vLLM has no attention backend {name}.",
        fix=(
            "Set attention-backend in vllm_args to one of the valid options in this line, or pin "
            "the image for which the recipe was written by digest."
        ),
        source="spark-arena/recipe-registry#23; vllm-project/vllm#14320",
        leads_to=("config-invalid",),
        sample="Unknown attention backend: 'B12X_MLA_SPARSE'. Valid options are: FLASH_ATTN",
        near_miss="Using attention backend: FLASH_ATTN",
    ),
    Signature(
        id="attention-backend-unfit",
        pattern=(
            r"No valid attention backend|(?:Selected|The) backend \S{1,60} is not valid for this"
        ),
        cause=(
            "No attention backend of this vLLM serves these options on the GB10; this line has the "
            "reason for each."
        ),
        fix=(
            "Change the option that the reasons name (kv-cache-dtype, block-size or "
            "attention-backend in vllm_args), or use an image with a backend for sm_121."
        ),
        source="vllm-project/vllm#32732; vllm-project/vllm#40094; vllm-project/vllm#31480",
        leads_to=("config-invalid", "kv-cache-dtype-unfit"),
        sample="ValueError: No valid attention backend found for cuda with AttentionSelectorConf",
        near_miss="Found a valid attention backend",
    ),
    Signature(
        id="kv-cache-dtype-unfit",
        pattern=(
            r"(?i)(?:unknown|invalid|unsupported) kv[ _-]cache[ _-](?:data ?type|dtype)"
            r"|kv_cache_dtype not supported|\bFP8 KV[ -]cache (?:is )?not (?:yet )?supported"
            r"|\bFP8 KV[ -]cache .{0,40}requires a backend"
        ),
        cause="The attention backend does not support this kv-cache-dtype.",
        fix="Set kv-cache-dtype: auto in vllm_args, or another attention-backend.",
        source="vllm-project/vllm#42587; vllm-project/vllm#40094; vllm-project/vllm PR#14221",
        leads_to=("config-invalid",),
        sample="NotImplementedError: FlashAttention V1 with FP8 KV cache not yet supported",
        near_miss="Using fp8 data type to store kv cache",
    ),
    Signature(
        id="kv-cache-needs-fp8",
        pattern=r"only supports fp8 kv-cache(?: format for now)?, got (?P<have>\w{1,20})",
        cause="This model's attention needs an FP8 KV cache, and kv-cache-dtype is {have}.",
        fix=(
            "Set kv-cache-dtype: fp8 in vllm_args; if it is set, a draft of speculative-config "
            "does not get it: remove speculative-config or use a newer image."
        ),
        source="1CatAI/1Cat-vLLM#298; vllm-project/vllm#47174",
        leads_to=("engine-start-failed", "model-not-built"),
        sample="AssertionError: DeepseekV4 only supports fp8 kv-cache format for now, got auto",
        near_miss="Using fp8 data type to store kv cache",
    ),
    Signature(
        id="model-not-multimodal",
        pattern=r"`?limit_mm_per_prompt`? is only supported for multimodal models",
        cause=(
            "limit-mm-per-prompt is set, and this vLLM takes the model for one without images: it "
            "is older than the model, or the model is for text alone."
        ),
        fix="Use an image with a newer vLLM and transformers, or remove limit-mm-per-prompt.",
        source="zai-org/GLM-V#9; zai-org/GLM-V#15; hiyouga/LlamaFactory#8022",
        leads_to=("config-invalid",),
        sample="ValueError: `limit_mm_per_prompt` is only supported for multimodal models.",
        near_miss="limit_mm_per_prompt: {'image': 4}",
    ),
    Signature(
        id="mamba-block-size",
        pattern=r"mamba[-_]block[-_]size can only be set with",
        cause="mamba-block-size is set, but prefix caching, which it needs, is not.",
        fix="Set enable-prefix-caching: true in vllm_args, or remove mamba-block-size.",
        source="AEON-7/Qwen3.6-27B-AEON#12",
        leads_to=("config-invalid",),
        sample="Value error, --mamba-block-size can only be set with --enable-prefix-caching",
        near_miss="Setting mamba-block-size to 16",
    ),
    Signature(
        id="config-invalid",
        pattern=(
            r"validation errors? for (?P<what>\w{0,40}(?:Config|Args))\n"
            r"(?:(?!.{0,400} \[type=).{0,400}\n){0,4}?"
            r"\s{1,8}(?P<reason>.{1,400}?)\s{1,4}\[type="
        ),
        cause="vLLM rejects its options: {reason}.",
        fix="Correct vllm_args in the recipe, or use an image whose vLLM accepts them.",
        source="vLLM's own message; vllm-project/vllm#42587",
        role=FailureRole.SYMPTOM,
        sample=(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            "  Value error, max_model_len (9) is too large [type=value_error, input_value=x]"
        ),
        near_miss="1 validation error for Message\n  Field required [type=missing]",
    ),
    Signature(
        id="vllm-usage-error",
        pattern=r"^vllm serve: error: (?P<what>.{0,400})",
        cause="vLLM rejects its options: {what}",
        fix="Correct vllm_args in the recipe.",
        source="vLLM's own message",
        role=FailureRole.SYMPTOM,
        near_miss="usage: vllm serve [model_tag] [options]",
    ),
    Signature(
        id="chat-template-missing",
        pattern=(
            r"\((?P<path>[^()\n]{1,300})\) (?:appears path-like, but doesn't exist"
            r"|looks like a file path, but it failed to be opened)"
        ),
        cause="The chat template {path} does not exist in the container.",
        fix="Add the file to the recipe's weights_files, which stages it on every host.",
        source="eugr/spark-vllm-docker#294; vllm-project/vllm#7780",
        near_miss="Using supplied chat template (unsloth.jinja)",
    ),
    Signature(
        id="chat-template-undefined",
        pattern=(
            r"default chat template is no longer allowed"
            r"|because tokenizer\.chat_template is not set and no template"
        ),
        cause=(
            "The model's tokenizer has no chat template, so that vLLM refuses each chat: it is a "
            "base model, or the template is in a file of its own that is not staged."
        ),
        fix=(
            "Use the chat version of the model, or name a template in chat-template of vllm_args "
            "and in the recipe's weights_files. A base model answers at /v1/completions."
        ),
        source="vllm-project/vllm#39279; vllm-project/vllm#29849; ByteDance-Seed/Seed-X-7B#7",
        sample=(
            "ValueError: As of transformers v4.44, default chat template is no longer allowed, so "
            "you must provide a chat template if the tokenizer does not define one."
        ),
        near_miss="Using default chat template from the tokenizer",
    ),
    Signature(
        id="tool-parser-not-set",
        pattern=(
            r"tool[ _]choice(?:=.{1,80})? requires --(?:enable-auto-tool|tool-call-parser)"
            r"|--enable-auto-tool-choice requires --tool-call-parser"
        ),
        cause="A client sent tools, and vLLM was started without a parser for tool calls.",
        fix=(
            "Set enable-auto-tool-choice: true and tool-call-parser in vllm_args; the model's card "
            "names its parser."
        ),
        source="vllm-project/vllm#9986; vllm-project/vllm#55754; langchain4j/langchain4j#3475",
        fallback=True,
        sample=(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        ),
        near_miss='"auto" tool choice has been enabled.',
    ),
    Signature(
        id="mm-item-larger-than-batch",
        pattern=(
            r"(?:max_tokens_per_mm_item \(|\bitem with length )(?P<item>\d{1,9})"
            r"(?:\) is larger than max_num_batched_tokens \("
            r"|, which exceeds the pre-allocated encoder cache size )(?P<batch>\d{1,9})"
        ),
        cause="An image needs {item} tokens, but a batch holds {batch}.",
        fix="Set max-num-batched-tokens to {item} or more in vllm_args.",
        source="vLLM's own message",
        near_miss="max_tokens_per_mm_item (1024) fits into max_num_batched_tokens (2048)",
    ),
    Signature(
        id="vllm-variable-unknown",
        pattern=r"Unknown vLLM environment variable detected: (?P<name>\S+)",
        cause="This vLLM ignores {name}.",
        fix="Remove {name} from vllm_env, or use its option in vllm_args.",
        source="vLLM's own message",
        role=FailureRole.WARNING,
        near_miss="vLLM environment variable detected: VLLM_HOST_IP",
    ),
    Signature(
        id="vllm-port-of-kubernetes",
        pattern=(
            r"VLLM_PORT '(?P<value>[^'\n]{1,200})' appears to be a URI"
            r"|invalid literal for int\(\) with base 10: '(?:tcp|udp)://"
        ),
        cause="VLLM_PORT holds a URL: Kubernetes sets it in pods if a service has the name vllm.",
        fix="Give the service another name, or set enableServiceLinks: false in the pod.",
        source="vllm-project/vllm PR#18209",
        sample="ValueError: VLLM_PORT 'tcp://10.43.1.2:8000' appears to be a URI.",
        near_miss="Connecting to 'tcp://10.43.1.2:8000'",
    ),
    Signature(
        id="device-named-by-uuid",
        pattern=r"invalid literal for int\(\) with base 10: '(?P<device>(?:GPU|MIG)-[\w-]{1,60})'",
        cause="This vLLM expects numbers in CUDA_VISIBLE_DEVICES; it holds {device}.",
        fix="Leave CUDA_VISIBLE_DEVICES unset: a host has one GPU.",
        source="vllm-project/vllm PR#46132; vllm-project/vllm#20939",
        sample=(
            "ValueError: invalid literal for int() with base 10: "
            "'MIG-4c60d78c-506f-5593-938d-a136eaa1fa52'"
        ),
        near_miss="CUDA_VISIBLE_DEVICES=GPU-4c60d78c-506f-5593-938d-a136eaa1fa52",
    ),
    Signature(
        id="batch-below-length",
        pattern=(
            r"max_num_batched_tokens \((?P<batch>\d{1,9})\) is smaller than max_model_len "
            r"\((?P<length>\d{1,9})\)"
        ),
        cause=(
            "Without chunked prefill a request of {length} tokens must fit into one batch, which "
            "holds {batch}."
        ),
        fix=(
            "Remove no-enable-chunked-prefill from vllm_args, or set max-num-batched-tokens to "
            "{length} or more."
        ),
        source="vllm-project/vllm#28981; verl-project/verl PR#7632",
        leads_to=("config-invalid",),
        sample=("ValueError: max_num_batched_tokens (2048) is smaller than max_model_len (8192)."),
        near_miss="max_num_batched_tokens (8192) is larger than max_model_len (4096)",
    ),
    Signature(
        id="lora-rank-too-large",
        pattern=r"LoRA rank (?P<have>\d{1,5}) is greater than max_lora_rank (?P<most>\d{1,5})",
        cause="An adapter has rank {have}; vLLM was started for ranks up to {most}.",
        fix="Set max-lora-rank to {have} or more in vllm_args (8, 16, 32, 64, 128, 256 ...).",
        source="gpustack/gpustack#5438; hiyouga/LlamaFactory#9512",
        sample="ValueError: LoRA rank 64 is greater than max_lora_rank 16.",
        near_miss="LoRA rank 16 fits into max_lora_rank 16",
    ),
    Signature(
        id="kv-connector-hybrid",
        pattern=(
            r"External KV connector is not verified yet"
            r"|offloading/scheduler\.py\", line \d{1,6}, in update_state_after_alloc"
        ),
        cause=(
            "The KV connector or KV offloading of this vLLM does not work with a model that mixes "
            "attention and Mamba layers."
        ),
        fix=(
            "Remove kv-transfer-config and kv-offloading-size from vllm_args, or use another model "
            "or a newer image."
        ),
        source="vllm-project/vllm#45407; vllm-project/vllm#50454",
        sample="AssertionError: External KV connector is not verified yet",
        near_miss="KV connector was created: OffloadingConnector",
    ),
)
