"""Values given as text that vLLM reads as JSON, numbers or templates, and placeholders in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.templating import explain_chat_template_error
from sparkfleet.values import parse_json
from sparkfleet.vllm.dotted_options import format_word
from sparkfleet.vllm.numbers import is_auto_length
from sparkfleet.vllm.option_types import (
    FLAG,
    INTEGER,
    JSON,
    JSON_OR_TEXT,
    NUMBER,
    SIZE,
    convert_option_integer,
    load_option_types,
)
from sparkfleet.vllm.options import VllmOption
from sparkfleet.vllm.releases import parse_version

OLDER = {"swap-space": NUMBER}  # in releases before the one of the table
LENGTH = "max-model-len"  # may be auto
LEVEL = re.compile(r"[0-3]")  # of compilation-config, before it was JSON alone
OBJECTS_SINCE = Version("0.11.0")
SHORT_SIZE = re.compile(r'("(?:[^"\\]|\\.)*")|\b\d+(?:\.\d+)?[kKmMgGtT]\b')  # also within JSON
NEGATIVE = ("false", "no", "off", "0", "")
OBJECT = re.compile(r"\s*\{.*\}\s*", re.DOTALL)
# Not {{ name }}, which is a template of sparkfleet's own.
PLACEHOLDER = re.compile(r"\$\{\w+\}|(?<!\{)\{[A-Za-z_]\w*\}(?!\})|<your[ _-][a-z _-]+>")
RAW = re.compile(r"\s*\{%-?\s*raw\s*-?%\}(.*)\{%-?\s*endraw\s*-?%\}\s*", re.DOTALL)
TEMPLATES = ("chat-template", "default-chat-template-kwargs")  # braces belong there
NUMBER_LISTS = ("cudagraph-capture-sizes",)


def _check_json_values(context: RuleContext) -> Iterator[RuleFinding]:
    for option, text in _list_single_words(context):
        kind = _find_type(option.name, context)
        is_json = kind == JSON or (kind == JSON_OR_TEXT and bool(OBJECT.fullmatch(text)))
        if not is_json or PLACEHOLDER.fullmatch(text) or option.path:
            continue
        if problem := _explain_no_object(option.name, text):
            yield RuleFinding(
                subject=option.flag,
                expected="a JSON object",
                seen=f"{text[:80]}: {problem}",
                where=option.where,
                fix=f"write it as a mapping in vllm_args, without quotes: {option.name}: "
                "{key: value}",
            )


def _check_level(context: RuleContext) -> Iterator[RuleFinding]:
    option, version = context.option("compilation-config"), parse_version(context.version)
    if option is None or option.path or isinstance(option.value, bool) or version is None:
        return
    if version >= OBJECTS_SINCE and LEVEL.fullmatch(str(option.value)):
        yield RuleFinding(
            subject=option.flag,
            expected="a mapping",
            seen=str(option.value),
            where=option.where,
            fix="remove compilation-config: vLLM compiles the model by itself",
        )


def _explain_no_object(name: str, text: str) -> str:
    """Return why a text cannot be read as a JSON object; "" where it can."""
    if name == "compilation-config" and LEVEL.fullmatch(text):
        return ""
    try:
        value = parse_json(SHORT_SIZE.sub(lambda found: found[1] or "0", text))
    except ValueError as error:
        return str(error)
    return "" if isinstance(value, dict) else f"it is a {type(value).__name__}"


def _find_type(name: str, context: RuleContext) -> str:
    """Return how the vLLM that will run converts the text of an option; "" for not at all.

    Where its source was not read, the table of one release says it.
    """
    return (context.facts.types or {**OLDER, **load_option_types().types}).get(name, "")


def _check_numbers(context: RuleContext) -> Iterator[RuleFinding]:
    for option, text in _list_single_words(context):
        kind = _find_type(option.name, context)
        expected = _describe_number(option.name, kind)
        if not expected or option.path or is_malformed(text):
            continue
        if not _is_number(option.name, kind, text.strip()):
            yield RuleFinding(
                subject=option.flag,
                expected=expected,
                seen=repr(option.value),
                where=option.where,
                fix=f"write a number: {option.name}: 16"
                if kind == INTEGER
                else f"write {expected}",
            )


def _check_number_lists(context: RuleContext) -> Iterator[RuleFinding]:
    for name in NUMBER_LISTS:
        option = context.option(name)
        value = option.value if option is not None else None
        items = value if isinstance(value, list | tuple) else (value,)
        wrong = [item for item in items if not _is_integer(item)]
        if option is None or option.path or not wrong or is_malformed(str(value)):
            continue
        yield RuleFinding(
            subject=option.flag,
            expected="integers, each a word of its own",
            seen=repr(wrong[0]),
            where=option.where,
            fix=f"write a list in vllm_args: {name}: [1, 2, 4]",
        )


def _describe_number(name: str, kind: str) -> str:
    if kind == SIZE:
        return "an integer such as 65536 or 64K" + (", or auto" if name == LENGTH else "")
    return {INTEGER: "an integer", NUMBER: "a number such as 0.85"}.get(kind, "")


def _is_number(name: str, kind: str, text: str) -> bool:
    if name == LENGTH and is_auto_length(text):
        return True
    try:
        float(text) if kind == NUMBER else convert_option_integer(name, text, kind)
    except ValueError:
        return False
    return True


def _is_integer(value: object) -> bool:
    try:
        convert_option_integer("", value, INTEGER)
    except ValueError:
        return False
    return True


def _check_placeholders(context: RuleContext) -> Iterator[RuleFinding]:
    options = [
        (option.flag, option.value, option.where)
        for option in _list_text_options(context)
        if option.name not in TEMPLATES
    ]
    variables = [
        (name, value, context.at(name))
        for name, value in context.environment.items()
        if isinstance(value, str)
    ]
    for subject, value, where in (*options, *variables):
        found = None if _is_json(value) else PLACEHOLDER.search(value)
        if found:
            whole = found[0] == value.strip()
            yield RuleFinding(
                subject=subject,
                expected="a value",
                seen=f"{value[:80]}: nothing replaces {found[0]}",
                where=where,
                fix=f"write the value in place of {found[0]}",
                severity=Severity.ERROR if whole else Severity.WARNING,
            )


def _check_flags(context: RuleContext) -> Iterator[RuleFinding]:
    for option in _list_text_options(context):
        if _find_type(option.name, context) == FLAG and not option.path:
            meant = option.value.strip().lower() not in NEGATIVE
            yield RuleFinding(
                subject=option.flag,
                expected="true or false, without quotes: it takes no value",
                seen=repr(option.value),
                where=option.where,
                fix=f"write {option.name}: {str(meant).lower()}",
            )


def is_malformed(text: str) -> bool:
    """Return whether rules of their own report a text: a placeholder, or the end of a line."""
    return PLACEHOLDER.search(text) is not None or text.endswith("\\")


def _check_chat_template(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("chat-template")
    text = option.value if option is not None else None
    if option is None or not isinstance(text, str) or not re.search(r"\{[{%#]", text):
        return
    raw = RAW.fullmatch(text)
    if problem := explain_chat_template_error(raw[1] if raw else text):
        yield RuleFinding(
            subject=option.flag,
            expected="a Jinja template, or the path of one",
            seen=problem,
            where=option.where,
            fix="correct the template, or write the path of a file that holds it",
        )


def _is_json(value: str) -> bool:
    """Return whether a text is JSON, whose braces are no placeholder's."""
    try:
        return isinstance(parse_json(value), dict | list)
    except ValueError:
        return False


def _list_single_words(context: RuleContext) -> Iterator[tuple[VllmOption, str]]:
    """Yield the options that have one value, with the word that it is or becomes."""
    for name in dict.fromkeys(option.name for option in context.vllm_options):
        option = context.option(name)
        value = option.value if option is not None else None
        items = value if isinstance(value, list) else [value]
        if option is not None and len(items) == 1 and not isinstance(items[0], bool):
            yield option, format_word(items[0])


def _list_text_options(context: RuleContext) -> Iterator[VllmOption]:
    """Yield the options whose value is a text, as the last one given counts."""
    names = dict.fromkeys(option.name for option in context.vllm_options)
    for name in names:
        option = context.option(name)
        if option is not None and isinstance(option.value, str):
            yield option


RULES = (
    Rule(
        id="json",
        why="vLLM exits when it reads its options: the value cannot be converted",
        source="vLLM's arg_utils.py; eugr/spark-vllm-docker#111",
        find=_check_json_values,
    ),
    Rule(
        id="level",
        why="vLLM exits when it reads its options: it is an object, not a level",
        source="vLLM's engine/arg_utils.py, 0.11 to 0.32; VectorInstitute/vector-inference#157",
        find=_check_level,
    ),
    Rule(
        id="number",
        why="vLLM exits when it reads its options: invalid int value",
        source="vLLM's argument parser (argparse)",
        find=_check_numbers,
    ),
    Rule(
        id="numbers",
        why="vLLM exits when it reads its options: invalid int value",
        source="vLLM's argument parser (argparse); nargs of engine/arg_utils.py, 0.11 to 0.32",
        find=_check_number_lists,
    ),
    Rule(
        id="flag",
        why="vLLM exits when it reads its options: ignored explicit argument",
        source="vLLM's argument parser (argparse)",
        find=_check_flags,
    ),
    Rule(
        id="chat_template",
        why="vLLM cannot compile the template, and no chat request is answered",
        source="transformers' utils/chat_template_utils.py, which compiles it",
        find=_check_chat_template,
    ),
    Rule(
        id="placeholder",
        why="placeholder text reaches vLLM unchanged",
        source="vLLM's argument parser (argparse)",
        find=_check_placeholders,
    ),
)
