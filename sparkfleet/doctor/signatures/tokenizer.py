"""Failures of a model's tokenizer."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import Signature

ROWS = (
    Signature(
        id="tokenizer-missing",
        pattern=(
            r"Can't load tokenizer for '(?P<model>[^']+)'"
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
            "converts it (sentencepiece, tiktoken), or tokenizer.model is not there."
        ),
        fix=(
            "Check the files with `{task:weights.verify}`; add sentencepiece and tiktoken to "
            "engine_pip in the recipe."
        ),
        source="mit-han-lab/streaming-llm PR#3; EvilBT/ComfyUI_SLK_joy_caption_two#41",
        sample="ValueError: Couldn't instantiate the backend tokenizer from one of:",
        near_miss="Converting from Tiktoken to a fast tokenizer",
    ),
)
