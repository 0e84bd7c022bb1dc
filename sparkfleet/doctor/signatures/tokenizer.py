"""Failures of a model's tokenizer."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="tokenizer-missing",
        pattern=(
            r"Can't load tokenizer for '(?P<model>[^'\n]+)'"
            r"|No tokenizer file found in directory: (?P<folder>\S+)"
        ),
        cause="The model folder has no tokenizer that vLLM can load.",
        fix=(
            "Run `{task:weights.verify}`; if the model comes without a tokenizer, set vllm_args: "
            "tokenizer."
        ),
        source="vllm-project/vllm#31444; transformers/tokenization_utils_base.py",
        near_miss="Loaded tokenizer for '/models/x'",
    ),
    Signature(
        id="tokenizer-transformers-5",
        pattern=(
            r"Tokenizer class TokenizersBackend does not exist or is not currently"
            r"|_set_model_specific_special_tokens(?:.{0,300}\n){0,6}?.{0,100}"
            r"'list' object has no attribute 'keys'"
        ),
        cause="The tokenizer was saved by transformers 5, and this image has transformers 4.",
        fix=(
            "Use an image with transformers 5, or add transformers>=5 to the recipe's engine_pip "
            "if its vLLM allows it; a new revision of the model can also have the old class."
        ),
        source=(
            "eugr/spark-vllm-docker#170; gpustack/gpustack#5096; huggingface/transformers#47553; "
            "modelscope/ms-swift#8098"
        ),
        sample=(
            "ValueError: Tokenizer class TokenizersBackend does not exist or is not currently "
            "imported."
        ),
        near_miss="Tokenizer class TokenizersBackend is slow",
    ),
    Signature(
        id="tokenizer-class-unknown",
        pattern=r"Tokenizer class (?P<name>(?!TokenizersBackend)\w{1,60}) does not exist or is not",
        cause="The transformers of this image has no tokenizer class {name}.",
        fix="Use an image with a newer transformers, or the tokenizer of the model's base.",
        source="tensorchord/modelz-llm#101; transformers' own message",
        sample="ValueError: Tokenizer class LLaMATokenizer does not exist or is not currently",
        near_miss="Tokenizer class LLaMATokenizer is slow",
    ),
    Signature(
        id="tokenizer-attribute",
        pattern=(
            r"AttributeError: '?(?P<name>\w{0,60}Tokenizer\w{0,40})'? (?:object )?has no attribute "
            r"'?(?P<attribute>\w{1,80})"
        ),
        cause=(
            "vLLM uses {attribute} of the tokenizer, which {name} of this transformers does not "
            "have: one of the two is newer than the other."
        ),
        fix=(
            "Use an image whose vLLM and transformers were released together. A vLLM before "
            "0.12 needs transformers 4 (4.57) in engine_pip."
        ),
        source="QwenLM/Qwen3-VL#2058; vllm-project/vllm PR#29686",
        sample=(
            "AttributeError: Qwen2Tokenizer has no attribute "
            "all_special_tokens_extended. Did you mean: 'num_special_tokens_to_add'?"
        ),
        near_miss="AttributeError: 'Qwen2Model' object has no attribute 'tokenizer'",
    ),
    Signature(
        id="tokenizer-mode-unknown",
        pattern=r"No tokenizer registered for tokenizer_mode='(?P<mode>[^'\n]{1,40})'",
        cause="This vLLM does not know the tokenizer mode {mode}: it is older than the model.",
        fix=(
            "Use an image with a newer vLLM, as the model's card demands; without tokenizer-mode "
            "the model has no chat template."
        ),
        source="vllm-project/vllm#30933; vllm-project/vllm-ascend#4969",
        sample="ValueError: No tokenizer registered for tokenizer_mode='deepseek_v32'.",
        near_miss="tokenizer_mode='deepseek_v32'",
    ),
    Signature(
        id="mistral-format",
        pattern=(
            r"Failed to load mistral 'params\.json' config"
            r"|Found 0 files matching the pattern: .{0,120}tekken"
        ),
        cause=(
            "vllm_args name Mistral's format, but the model's files are in the format of Hugging "
            "Face."
        ),
        fix="Remove tokenizer-mode, config-format and load-format from vllm_args.",
        source="vllm-project/vllm PR#17132; vllm-project/vllm#17210",
        sample="ValueError: Failed to load mistral 'params.json' config for model a/b.",
        near_miss="Found 1 files matching the pattern: `^tekken\\.json$`",
    ),
    Signature(
        id="tokenizer-not-converted",
        pattern=(
            r"Couldn't instantiate the backend tokenizer"
            r"|Cannot instantiate this tokenizer from a slow version"
            r"|Converting from (?:SentencePiece and )?Tiktoken failed"
        ),
        cause=(
            "The model has a tokenizer of an older form, and the image lacks the package that "
            "converts it (sentencepiece, tiktoken), or tokenizer.model is missing."
        ),
        fix=(
            "Check the files with `{task:weights.verify}`; add sentencepiece and tiktoken to "
            "engine_pip in the recipe."
        ),
        source="mit-han-lab/streaming-llm PR#3; EvilBT/ComfyUI_SLK_joy_caption_two#41",
        sample="ValueError: Couldn't instantiate the backend tokenizer from one of:",
        near_miss="Converting from Tiktoken to a fast tokenizer",
    ),
    Signature(
        id="processor-missing",
        pattern=(
            r"Can't load (?P<what>image processor|feature extractor|video processor|processor) for "
            r"'(?P<model>[^'\n]{1,300})'"
            r"|(?P<folder>\S{1,300}) does not appear to have a file named "
            r"(?P<file>(?:preprocessor|processor|video_preprocessor)_config\.json)"
        ),
        cause=(
            "The model takes images, video or sound, and its folder has no file that describes "
            "how they are prepared (preprocessor_config.json or processor_config.json)."
        ),
        fix=(
            "Run `{task:weights.verify}`; a quantized copy may lack the file: stage that of the "
            "original model. For text alone set `limit-mm-per-prompt` to 0 for each kind."
        ),
        source="huggingface/transformers#28658; huggingface/transformers#25804",
        leads_to=("engine-start-failed",),
        sample="OSError: Can't load image processor for '/models/Mistral-Medium-3.5-128B-config'.",
        near_miss="Using a slow image processor as `use_fast` is unset",
    ),
    Signature(
        id="chat-template-failed",
        pattern=r"jinja2\.exceptions\.(?P<kind>\w{1,40}): (?P<reason>.{1,300})",
        cause=(
            "The chat template cannot be rendered: {reason}. Either it needs functions that this "
            "transformers lacks, or the messages of a request do not fit it."
        ),
        fix=(
            "Take the chat template of the model's card (chat-template in vllm_args, and the "
            "file in the recipe's weights_files), and roles in the order that it demands."
        ),
        source="runpod-workers/worker-vllm#129; oobabooga/textgen#6675",
        role=FailureRole.SYMPTOM,
        sample="jinja2.exceptions.UndefinedError: 'strftime_now' is undefined",
        near_miss="Using jinja2 3.1.6",
    ),
    Signature(
        id="harmony-answer-broken",
        pattern=(
            r"HarmonyError(?:: |\(['\"])"
            r"(?P<what>[Uu]nexpected tokens? .{1,300}|Unknown role: .{1,100}"
            r"|channel marker present .{1,100})"
        ),
        cause=(
            "gpt-oss wrote an answer that its format (Harmony) does not allow, and the request "
            "failed: {what}."
        ),
        fix=(
            "Use an image with a newer vLLM, and the newest files of the model (its chat template "
            "and generation_config.json changed); requests must not set ignore_eos."
        ),
        source="vllm-project/vllm#22519; openai/harmony#38; vllm-project/vllm#23567",
        role=FailureRole.SYMPTOM,
        fallback=True,
        leads_to=("request-not-served",),
        sample=(
            "openai_harmony.HarmonyError: Unexpected token 12606 while expecting start token 200006"
        ),
        near_miss="openai_harmony.HarmonyError: error downloading or loading vocab file: failed",
    ),
)
