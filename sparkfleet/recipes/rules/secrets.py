"""Secrets in a recipe, which people share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sparkfleet.errors import Where
from sparkfleet.model import Value
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext

# How tokens begin: Hugging Face, NGC, OpenAI's form, GitHub, AWS; a password in a URL
TOKEN = re.compile(
    r"\b(hf_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,}|sk-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{16,}|AKIA[A-Z0-9]{16})|://[^/\s:@]+:[^/\s:@]+@"
)
NAME = re.compile(
    r"(^|[_-])(TOKEN|API[_-]?KEYS?|SECRETS?|PASSWORDS?|PASSWD|CREDENTIALS?)$", re.IGNORECASE
)
SHORTEST = 6  # characters; less is "none", "EMPTY" or a flag
FIX = "write: {name}: \"{{{{ lookup('env', '{variable}') }}}}\""


def _check_recipe_secrets(context: RuleContext) -> Iterator[RuleFinding]:
    for name, value in context.recipe.vars.items():
        yield from _scan_value(
            name, value.data, value.where or Where(file=str(context.recipe.path)), value
        )


def _scan_value(name: str, data: Any, where: Where, value: Value) -> Iterator[RuleFinding]:
    if isinstance(data, dict):
        for key, item in data.items():
            yield from _scan_value(str(key), item, value.entries.get(str(key), where), value)
    elif isinstance(data, list):
        for item in data:
            yield from _scan_value(name, item, where, value)
    elif isinstance(data, str) and _holds_secret(name, data):
        key = name.partition("=")[0]
        variable = re.sub(r"\W", "_", key).upper()
        yield RuleFinding(
            subject=name,
            expected="a look-up: a recipe is for sharing",
            seen=f"a secret of {len(data)} characters",
            where=replace(where, excerpt=None),
            fix=FIX.format(name=key, variable=variable),
        )


def _holds_secret(name: str, text: str) -> bool:
    """Return whether a text is a secret, by its form or by its name.

    `engine_args` holds words of ``docker run``: NAME=VALUE.
    """
    if TOKEN.search(text) is not None or "{{" in text:
        return TOKEN.search(text) is not None
    head, equals, value = text.removeprefix("--env=").removeprefix("-e").strip().partition("=")
    named = [(name, text), *([(head, value)] if equals else [])]
    return any(NAME.search(key) and _is_literal(given) for key, given in named)


def _is_literal(text: str) -> bool:
    """Return whether a text can be a secret: no number, no reference and no path to one."""
    return len(text) >= SHORTEST and not text.isdecimal() and not text.startswith(("$", "/", "~"))


RULES = (
    Rule(
        id="secret",
        why="everyone who gets the recipe, a log or the rendered files gets the secret",
        source="huggingface.co/docs/hub/security-tokens",
        find=_check_recipe_secrets,
    ),
)
