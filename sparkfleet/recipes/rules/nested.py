"""Names that vLLM looks up while it starts: keys inside JSON options, and modes.

Forks and plugins add keys and modes, so a key that no release of vLLM has is a finding only where
one of them is similar.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.spelling import find_similar
from sparkfleet.vllm.options import parse_json_object
from sparkfleet.vllm.releases import ReleaseTable, load_release_table

MODES = {
    "config-format": ("auto", "hf", "mistral"),
    "tokenizer-mode": (
        *("auto", "cohere", "deepseek_v32", "deepseek_v4", "deepseek_v41", "hf", "inkling"),
        *("kimi_audio", "kimi_k3", "mistral", "slow"),  # slow: up to 0.1x
    ),
}


def _check_keys(context: RuleContext) -> Iterator[RuleFinding]:
    table = load_release_table("keys")
    for name in sorted({entry.partition("=")[0] for entry in table.spans}):
        option = context.option(name)
        if option is None:
            continue
        value = context.draft if name == "speculative-config" else option.value
        for key in _list_keys(name, value, table):
            entry = f"{name}={key}"
            history = table.history(entry)
            similar = _find_similar_key(entry, table, context.version)
            if _is_absent(entry, table, context.version) and (similar or history):
                yield RuleFinding(
                    subject=f"{key} in {name}",
                    expected=similar or _describe_expected(context),
                    seen=f"one {history}" if history else f"{key}: no release of vLLM has it",
                    where=option.where,
                    fix=_suggest_key(key, similar),
                    severity=Severity.WARNING,
                )


def _list_keys(name: str, value: object, table: ReleaseTable) -> Iterator[str]:
    """Yield the keys of an option's JSON object: ``key``, and ``key.key`` of objects in it.

    Only objects that vLLM checks are looked into; the others hold what a plugin reads.
    """
    for key, inner in parse_json_object(value).items():
        outer = str(key)
        yield outer
        if any(entry.startswith(f"{name}={outer}.") for entry in table.spans):
            yield from (f"{outer}.{each}" for each in parse_json_object(inner))


def _is_absent(entry: str, table: ReleaseTable, version: str) -> bool:
    """Return whether the vLLM that will run refuses a key; without a version, if no release has it.

    An option that the release lacks itself is reported by a rule of its own.
    """
    if not table.covers(version):
        return entry not in table.spans
    option = entry.partition("=")[0]
    known = load_release_table("options").has(option, version)
    return known is True and table.has(entry, version) is False


def _find_similar_key(entry: str, table: ReleaseTable, version: str) -> str | None:
    """Return the key of the same object that is meant, for one that no release has."""
    if entry in table.spans:
        return None
    option, _, key = entry.partition("=")
    outer, dot, inner = key.rpartition(".")
    names = table.names(version) if table.covers(version) else table.spans
    start = f"{option}={outer}{dot}"
    keys = [name.removeprefix(start) for name in names if name.startswith(start)]
    similar = find_similar(inner, [name for name in keys if "." not in name])
    return f"{outer}{dot}{similar}" if similar else None


def _describe_expected(context: RuleContext) -> str:
    return f"a key of vLLM {context.version}, {context.version_source}"


def _suggest_key(key: str, similar: str | None) -> str:
    action = f"rename it to {similar}" if similar else f"remove {key}, or run a vLLM that has it"
    return f"{action}, or list `config_key` in vllm_accept"


def _check_modes(context: RuleContext) -> Iterator[RuleFinding]:
    for name, known in MODES.items():
        option = context.option(name)
        if option is not None and str(option.value) not in known:
            yield RuleFinding(
                subject=option.flag,
                expected=f"one of {', '.join(known)}",
                seen=str(option.value),
                where=option.where,
                fix=f"write one of these, or remove {name}; a plugin may have more",
                severity=Severity.WARNING,
            )


RULES = (
    Rule(
        id="config_key",
        why="vLLM exits when it reads its options: there is no such key (0.16 and later)",
        source="vLLM's vllm/config, by release; vllm-project/vllm#24888, vllm-project/recipes#521",
        find=_check_keys,
    ),
    Rule(
        id="config_mode",
        why="vLLM exits when it reads the model: there is no such mode",
        source="vLLM's transformers_utils/config.py and tokenizers/registry.py, 0.32.0",
        find=_check_modes,
    ),
)
