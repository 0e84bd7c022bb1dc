"""The answers that smoke prompts ask for are never longer than a sequence may be."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.launch.endpoint.answer_length import choose_answer_tokens
from tests.engines import settings


@pytest.mark.parametrize(
    ("length", "tokens"),
    [(None, 500), ("auto", 500), (262144, 500), ("64K", 500), (256, 128), ("1k", 500), (1, 1)],
)
def test_an_answer_leaves_room_for_its_prompt(length: Any, tokens: int) -> None:
    options = {} if length is None else {"max-model-len": length}
    assert choose_answer_tokens(settings(vllm_args=options)) == tokens
