"""Purposes of a model, and what of a recipe says that it serves one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sparkfleet.cli.views.recipe import format_model
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.vllm.options import VllmOptions, read_vllm_options

SEES = re.compile(r"\b(images|vision|video|multimodal)\b", re.IGNORECASE)
AGENT_CONTEXT = 65536  # tokens; a coding agent sends files and the history of its tools
LONG_CONTEXT = 200_000
UNKNOWN_CONTEXT = 0

Accepts = Callable[[Recipe, VllmOptions, Collection[str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """A purpose: what it asks of a recipe, in words and as a function; what comes first."""

    asks: str
    accepts: Accepts
    first: str  # newest, fastest, longest or busiest

    @property
    def counts_all(self) -> bool:
        """Whether the tokens of all requests together count, and so copies do."""
        return self.first == "busiest"


def _accept_coding(_recipe: Recipe, options: VllmOptions, _seeing: Collection[str]) -> bool:
    tools = options.value("tool-call-parser") and options.value("enable-auto-tool-choice")
    context = read_context(options)
    return bool(tools) and (context == UNKNOWN_CONTEXT or context >= AGENT_CONTEXT)


def _accept_chat(_recipe: Recipe, _options: VllmOptions, _seeing: Collection[str]) -> bool:
    return True


def _accept_vision(recipe: Recipe, options: VllmOptions, seeing: Collection[str]) -> bool:
    return format_model(recipe) in seeing and not options.value("language-model-only")


def _accept_long(_recipe: Recipe, options: VllmOptions, _seeing: Collection[str]) -> bool:
    return read_context(options) >= LONG_CONTEXT


PURPOSES: Mapping[str, Purpose] = {
    "coding": Purpose(
        asks="tool calls, and a context of 64K or more; measured ones first, then the newest",
        accepts=_accept_coding,
        first="newest",
    ),
    "chat": Purpose(
        asks="any model; the fastest answer to one request first",
        accepts=_accept_chat,
        first="fastest",
    ),
    "vision": Purpose(
        asks="a model that sees images; the fastest answer to one request first",
        accepts=_accept_vision,
        first="fastest",
    ),
    "long-context": Purpose(
        asks="a context of 200K or more; the longest first",
        accepts=_accept_long,
        first="longest",
    ),
    "throughput": Purpose(
        asks="any model; the most tokens a second of all requests together first",
        accepts=_accept_chat,
        first="busiest",
    ),
}


def read_options(recipe: Recipe) -> VllmOptions:
    """Return the options of `vllm serve` that a recipe sets."""
    values = {name: value.data for name, value in recipe.vars.items()}
    return read_vllm_options(values.get("vllm_args") or {}, values.get("vllm_raw_args") or ())


def read_context(options: VllmOptions) -> int:
    """Return the longest context in tokens; 0 where the recipe leaves it to vLLM."""
    return options.integer("max-model-len") or UNKNOWN_CONTEXT


def find_seeing_models(recipes: Collection[Recipe]) -> frozenset[str]:
    """Return the models of which a recipe's description says that they see images."""
    return frozenset(format_model(recipe) for recipe in recipes if SEES.search(recipe.description))
