"""A tokenizer that the engine's transformers cannot read is refused before a start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.launch.host.image import Probe
from sparkfleet.launch.preflight.tokenizer_checks import check_tokenizer
from sparkfleet.model import Severity
from tests.engines import PROBE, settings

NEW = {"tokenizer_class": "TokenizersBackend"}
LISTED = {"tokenizer_class": "Qwen2Tokenizer", "extra_special_tokens": ["<a>"]}


def _severities(
    content: Any,
    version: str = "4.57.1",
    files: tuple[str, ...] = (),
    probe: Probe | None = PROBE,
    options: dict[str, str] | None = None,
) -> list[Severity]:
    packages = {"transformers": version} if version else {}
    probe = replace(probe, packages=packages) if probe else None
    found = check_tokenizer(content, settings(vllm_args=options or {}), probe, files)
    return [verdict.severity for verdict in found]


# gpustack/gpustack#5096 and huggingface/transformers#47553
@pytest.mark.parametrize("content", [NEW, LISTED], ids=["class", "list"])
def test_a_tokenizer_of_transformers_5_needs_transformers_5(content: Any) -> None:
    assert _severities(content) == [Severity.ERROR]
    assert _severities(content, "5.0.0rc1") == [Severity.OK]
    assert _severities(content, "5.1.0") == [Severity.OK]


@pytest.mark.parametrize(
    "content",
    [
        {"tokenizer_class": "LlamaTokenizerFast"},
        {"extra_special_tokens": {"image_token": "<image>"}},
        {},
        [],
        None,
    ],
    ids=["older-class", "mapping", "empty", "list", "none"],
)
def test_older_tokenizers_and_other_files_give_no_verdict(content: Any) -> None:
    assert _severities(content) == []


def test_an_unknown_version_gives_no_verdict() -> None:
    assert _severities(NEW, "") == []
    assert _severities(NEW, probe=None) == []


def test_a_tokenizer_that_transformers_does_not_read_is_not_checked() -> None:
    assert _severities(NEW, files=("config.json", "tekken.json")) == []
    assert _severities({**NEW, "auto_map": {"AutoTokenizer": ["own.Tokenizer", None]}}) == []
    assert _severities(NEW, options={"tokenizer-mode": "mistral"}) == []
    assert _severities(NEW, options={"tokenizer": "org/base"}) == []


def test_the_mode_of_a_tokenizer_that_transformers_reads_changes_nothing() -> None:
    assert _severities(NEW, options={"tokenizer-mode": "slow"}) == [Severity.ERROR]
    assert _severities({**NEW, "auto_map": ["odd"]}) == [Severity.ERROR]
