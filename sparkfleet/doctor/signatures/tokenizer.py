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
)
