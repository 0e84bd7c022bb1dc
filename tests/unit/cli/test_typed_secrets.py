"""A secret on the command line would be kept on every host, so it is refused."""

from __future__ import annotations

import pytest

from sparkfleet.cli.set_variables import parse_variables
from sparkfleet.errors import UsageError


@pytest.mark.parametrize(
    "item",
    [
        "vllm_env={VLLM_API_KEY: hunter2}",
        "{vllm_env: {VLLM_API_KEY: hunter2}}",
        '{"vllm_env": {"HF_TOKEN": "hunter2"}}',
        "cluster_rank_vars={0: {vllm_env: {HF_TOKEN: hunter2}}}",
        "vllm_env={MY_PASSWORD: 1234}",
    ],
)
def test_a_typed_secret_is_refused_and_not_repeated(item: str) -> None:
    with pytest.raises(UsageError, match="must not be typed") as caught:
        parse_variables([item])
    assert "hunter2" not in str(caught.value)
    assert "{from_file: PATH}" in str(caught.value.hint)


@pytest.mark.parametrize(
    "item",
    [
        "vllm_env={VLLM_API_KEY: {from_file: ~/key}}",
        "vllm_env={VLLM_API_KEY: \"{{ lookup('env', 'KEY') }}\"}",
        "vllm_env={VLLM_API_KEY: null}",
        "vllm_env={VLLM_LOGGING_LEVEL: DEBUG}",
        "vllm_args={hf-overrides: {eos_token_id: 2}}",
        "vllm_port=8001",
    ],
)
def test_a_reference_to_a_secret_is_taken(item: str) -> None:
    assert parse_variables([item])
