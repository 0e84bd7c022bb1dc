"""Values of options that take one of a list, which differs from release to release of vLLM."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext, format_option_value
from sparkfleet.recipes.rules.typed import is_malformed
from sparkfleet.vllm import releases
from sparkfleet.vllm.option_types import load_option_types
from sparkfleet.vllm.options import VllmOption, parse_json_object

PLUGINS = {  # the option with which a file of one's own adds names
    "tool-call-parser": "tool-parser-plugin",
    "reasoning-parser": "reasoning-parser-plugin",
}
EXTENDED = ("quantization", "load-format")  # vLLM takes names that an installed package registers
UNCHANGED = ("dtype", "mm-encoder-tp-mode", "runner")  # the same list in 0.10 to 0.32
LISTED = ("attention-backend", "moe-backend", "kv-cache-dtype", *EXTENDED, *PLUGINS)
UNDERLINED = ("moe-backend", "linear-backend", "sparse-indexer-topk-backend")  # "-" is "_"
PROCESSOR_DEVICES = ("auto", "cpu")  # and, on a Spark, cuda
DEVICES_READ = Version("0.32.0")  # the release whose source was read for them
LOWER = (*UNDERLINED, "load-format")  # vLLM takes these in any case


def _check_listed_values(context: RuleContext) -> Iterator[RuleFinding]:
    for name, value, option in _list_given_values(context):
        if not _is_known_value(name, value, context):
            known = sorted(_list_known_values(name, context))
            history = releases.load_release_table("values").history(f"{name}={value}")
            seen = f"{value}: {history or _describe_absence(name)}"
            yield RuleFinding(
                subject=option.flag,
                expected=_describe_expected(context),
                seen=seen,
                where=option.where,
                fix=f"remove {name}, or write one of these: {', '.join(known)}",
                severity=_rate_certainty(name, context),
            )


def _list_given_values(context: RuleContext) -> Iterator[tuple[str, str, VllmOption]]:
    for name in dict.fromkeys((*LISTED, *load_option_types().values, *context.facts.values)):
        option = context.option(name)
        plugin = context.option(PLUGINS[name]) if name in PLUGINS else None
        if option is None or option.path or plugin is not None or isinstance(option.value, bool):
            continue
        if isinstance(option.value, str | int) and not is_malformed(str(option.value)):
            yield name, _normalize_value(name, str(option.value)), option
    attention = context.option("attention-config")
    backend: Any = parse_json_object(attention.value).get("backend") if attention else None
    if attention is not None and isinstance(backend, str):
        yield "attention-backend", backend.upper(), attention


def _normalize_value(name: str, value: str) -> str:
    """Return a value as vLLM's own parser changes it before it looks it up."""
    if name == "attention-backend":
        return value.upper()
    lowered = value.lower() if name in LOWER else value
    return lowered.replace("-", "_") if name in UNDERLINED else lowered


def _is_known_value(name: str, value: str, context: RuleContext) -> bool:
    """Return whether the vLLM that will run may take `value`; True where that is not known."""
    if not value or (name == "attention-backend" and value == "AUTO"):
        return True
    if installed := context.facts.values.get(name):
        return value in installed
    if closed := load_option_types().values.get(name):
        return value in closed
    table = releases.load_release_table("values")
    if table.covers(context.version):
        known = _list_known_values(name, context)
        return not known or table.has(f"{name}={value}", context.version) is not False
    return name in EXTENDED or f"{name}={value}" in table.spans


def _list_known_values(name: str, context: RuleContext) -> Collection[str]:
    if installed := context.facts.values.get(name):
        return installed
    if closed := load_option_types().values.get(name):
        return closed
    table = releases.load_release_table("values")
    entries = table.names(context.version) if table.covers(context.version) else table.spans
    return [entry.partition("=")[2] for entry in entries if entry.startswith(f"{name}=")]


def _describe_expected(context: RuleContext) -> str:
    if not context.version:
        return "a value of any vLLM release"
    return f"a value of vLLM {context.version}, {context.version_source}"


def _rate_certainty(name: str, context: RuleContext) -> Severity:
    """Return ERROR for a list that is known and closed; forks and packages add names to others."""
    if name not in context.facts.values and not _is_listed_for(name, context.version):
        return Severity.INFO
    return Severity.WARNING if name in EXTENDED else Severity.ERROR


def _describe_absence(name: str) -> str:
    table = load_option_types()
    listed = name in table.values and name not in UNCHANGED
    return f"not in vLLM {table.release}" if listed else "no release of vLLM has it"


def _is_listed_for(name: str, version: str) -> bool:
    """Return whether a shipped table has the values of an option for a version of vLLM."""
    table = load_option_types()
    if name in UNCHANGED:
        return releases.load_release_table("values").covers(version)
    if name in table.values:
        return str(releases.parse_version(version)) == table.release
    return releases.load_release_table("values").covers(version)


def _check_processor_device(context: RuleContext) -> Iterator[RuleFinding]:
    """Check the device that prepares images, whose list vLLM makes when it starts."""
    option = context.option("mm-processor-device")
    if option is None or option.value in PROCESSOR_DEVICES or is_malformed(str(option.value)):
        return
    is_gpu = option.value == "cuda"
    if is_gpu and context.option("ec-transfer-config") is not None:
        return  # an instance that only encodes may use the GPU
    version = releases.parse_version(context.version)
    is_read = version is None or version.release[:2] == DEVICES_READ.release[:2]
    reason = ": cuda is for an instance without the language model" if is_gpu else ""
    yield RuleFinding(
        subject=option.flag,
        expected=f"auto or cpu{reason}",
        seen=format_option_value(option.value)[:80],
        where=option.where,
        fix=f"remove {option.name}, or write {option.name}: cpu",
        severity=Severity.ERROR if is_read and not is_gpu else Severity.WARNING,
    )


RULES = (
    Rule(
        id="value",
        why="vLLM exits when it reads its options, or minutes later when it looks the name up",
        source="vLLM's own lists, of the engine that is installed or by release; "
        "spark-arena/recipe-registry#23",
        find=_check_listed_values,
    ),
    Rule(
        id="processor_device",
        why="vLLM exits when it reads its options, or, with cuda, when it loads a model for images",
        source="vLLM's engine/arg_utils.py and config/multimodal.py, 0.32.0",
        find=_check_processor_device,
    ),
)
