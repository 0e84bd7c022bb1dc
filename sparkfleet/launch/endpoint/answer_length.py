"""The longest answer that a smoke prompt asks for."""

from __future__ import annotations

from sparkfleet.recipes.settings import Settings


def choose_answer_tokens(settings: Settings) -> int:
    """Return `vllm_smoke_tokens`, at most half of the `max-model-len` that is set.

    vLLM refuses a request whose answer could be longer than a sequence.
    """
    tokens = settings.integer("vllm_smoke_tokens")
    length = settings.vllm_options.integer("max-model-len")
    return tokens if length is None else max(1, min(tokens, length // 2))
