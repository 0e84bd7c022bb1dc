"""OpenAI's vocabulary, which gpt-oss loads from the internet at the end of a start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext

VOCABULARY_VARIABLE = "TIKTOKEN_ENCODINGS_BASE"
FILE = "o200k_base.tiktoken"
ADDRESS = (
    f"https://openaipublic.blob.core.windows.net/encodings/{FILE}"  # tiktoken, openai_public.py
)
ARCHITECTURE = "GptOssForCausalLM"


def find_vocabulary_folder(text: str) -> str | None:
    """Return the folder, below the weights, of a vocabulary that `weights_files` names, or None."""
    repository, colon, file = text.partition(":")
    path = PurePosixPath(file if colon else PurePosixPath(repository).name)
    if path.suffix != ".tiktoken":
        return None
    return "" if path.parent == PurePosixPath() else str(path.parent)


def _check_vocabulary(context: RuleContext) -> Iterator[RuleFinding]:
    if context.architecture != ARCHITECTURE and "gpt-oss" not in context.model:
        return
    staged = context.settings.value("weights_files") or ()
    if any(find_vocabulary_folder(str(text)) is not None for text in staged):
        return
    if context.environment.get(VOCABULARY_VARIABLE):
        return
    offline = bool(context.settings.value("weights_offline"))
    yield RuleFinding(
        subject="weights_files",
        expected=f"{FILE}, for hosts that do not reach the internet",
        seen="weights_offline, and no file of it" if offline else "none",
        where=context.at("weights_files", "vllm_model"),
        fix=f"download {ADDRESS} to this machine, and write weights_files: [~/{FILE}]; "
        f"{VOCABULARY_VARIABLE} is then set by itself",
        severity=Severity.WARNING if offline else Severity.INFO,
    )


RULES = (
    Rule(
        id="vocabulary",
        why="gpt-oss fetches OpenAI's vocabulary at the end of every start, and dies where it "
        "cannot",
        source="NVIDIA/dgx-spark-playbooks#17; vllm-project/vllm#22525; openai/harmony#46",
        find=_check_vocabulary,
    ),
)
