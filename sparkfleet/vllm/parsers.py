"""The parsers that vLLM's documents name for a model's tool calls and reasoning.

From https://docs.vllm.ai/en/latest/features/tool_calling/ and
https://docs.vllm.ai/en/latest/features/reasoning_outputs/, and for Gemma 4, Qwen3.5 and later,
Nemotron 3 and MiniMax from the options of the shipped recipes. Models whose tool calls need a chat
template of vLLM's examples are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserNames:
    """The names of a model's parsers; "" for none."""

    tools: str = ""
    reasoning: str = ""


# (pattern of the model's name in lower case, parser of tool calls, parser of reasoning); the first
# that matches counts.
_ROWS = (
    (r"gpt-oss", "openai", ""),
    (r"gemma-?4", "gemma4", "gemma4"),
    (r"nemotron-3-", "qwen3_coder", "nemotron_v3"),
    (r"qwen3-coder", "qwen3_xml", ""),
    (r"qwen3\.\d", "qwen3_xml", "qwen3"),
    (r"qwen3-", "hermes", "qwen3"),
    (r"qwq-32b", "hermes", "deepseek_r1"),
    (r"qwen2\.5", "hermes", ""),
    (r"deepseek-r1", "", "deepseek_r1"),
    (r"deepseek-v3\.1", "", "deepseek_v3"),
    (r"glm-4\.7", "glm47", ""),
    (r"glm-4\.[56]", "glm45", "glm45"),
    (r"minimax-m2", "minimax_m2", "minimax_m2"),
    (r"kimi-k2", "kimi_k2", ""),
    (r"hunyuan-a13b", "hunyuan_a13b", "hunyuan_a13b"),
    (r"granite-4", "granite4", ""),
    (r"granite-3\.1", "granite", ""),
    (r"olmo-3-", "olmo3", ""),
    (r"longcat-flash-chat", "longcat", ""),
    (r"hermes-[23]-", "hermes", ""),
    (r"mistral|devstral", "mistral", ""),
)


def find_parsers(model: str) -> ParserNames:
    """Return the parsers that are named for ``ORG/MODEL``; none where no document names one."""
    name = model.rpartition("/")[2].lower()
    for pattern, tools, reasoning in _ROWS:
        if re.search(pattern, name):
            return ParserNames(tools=tools, reasoning=reasoning)
    return ParserNames()
