"""The longest answer that a smoke prompt asks for."""

from __future__ import annotations

from sparkfleet.recipes.settings import Settings
from sparkfleet.vllm.options import parse_human_readable_int


def choose_answer_tokens(settings: Settings) -> int:
    """Return `vllm_smoke_tokens`, at most half of the `max-model-len` that is set.

    vLLM refuses a request whose answer could be longer than a sequence.
    """
    tokens = settings.integer("vllm_smoke_tokens")
    try:
        length = parse_human_readable_int(settings.vllm_options.value("max-model-len"))
    except ValueError:  # not set, or auto
        return tokens
    return max(1, min(tokens, length // 2))
