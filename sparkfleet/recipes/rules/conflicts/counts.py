"""How many values an option takes, against the words that it has or gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.recipes.rules.typed import is_malformed
from sparkfleet.vllm.option_types import (
    FLAG_FORM,
    LIST_FORM,
    ONE_FORM,
    OptionForms,
    load_option_forms,
    load_option_types,
)
from sparkfleet.vllm.options import APPENDED, VllmOption, is_option_word
from sparkfleet.vllm.owned_options import OWNED_OPTIONS
from sparkfleet.vllm.releases import parse_version

COUNTS = {
    FLAG_FORM: (0, 0),
    ONE_FORM: (1, 1),
    "?": (0, 1),
    LIST_FORM: (1, None),
}  # the least and the most
EXPECTED = {
    FLAG_FORM: "no value: it is a flag",
    ONE_FORM: "one value",
    "?": "one value, or none",
    LIST_FORM: "one value or more",
}


def _check_counts(context: RuleContext) -> Iterator[RuleFinding]:
    forms = load_option_forms()
    for option in context.vllm_options:
        form = _find_form(option, forms)
        if form is None or option.value is None or _is_reported(option, form):
            continue
        least, most = COUNTS[form]
        count = len(_list_values(option, forms))
        if count < least or (most is not None and count > most):
            yield RuleFinding(
                subject=option.flag,
                expected=EXPECTED[form],
                seen=_describe_values(option),
                where=option.where,
                fix=_suggest_form(option, form),
                severity=_rate_certainty(option.plain_name, context),
            )


def _rate_certainty(name: str, context: RuleContext) -> Severity:
    """Return ERROR where the table's release runs, or may, and for an option that is not text."""
    version, of_table = parse_version(context.version), Version(load_option_forms().release)
    same = version is None or version.release[:2] == of_table.release[:2]
    return Severity.ERROR if same or name in load_option_types().types else Severity.WARNING


def _find_form(option: VllmOption, forms: OptionForms) -> str | None:
    """Return how many values an option takes; None where that is not known."""
    form = forms.words.get(option.plain_name)
    takes_one = option.path or (option.is_attached and form == LIST_FORM)
    return ONE_FORM if takes_one and form is not None else form


def _list_values(option: VllmOption, forms: OptionForms) -> list[Any]:
    """Return the values that an option has as words, or becomes."""
    value = option.value
    is_one = not option.is_raw and (option.path or option.name in forms.json_lists)
    if isinstance(value, bool) and not is_one:
        return []
    return value if isinstance(value, list) and not is_one else [value]


def _is_reported(option: VllmOption, form: str) -> bool:
    """Return whether a rule of its own reports an option."""
    if option.plain_name in OWNED_OPTIONS:
        return True
    items = option.value if isinstance(option.value, list) else [option.value]
    texts = [item for item in items if isinstance(item, str)]
    if any(is_malformed(text) or (text.startswith("--") and " " in text) for text in texts):
        return True
    is_text = isinstance(option.value, str) and option.name == option.plain_name
    return is_text and form == FLAG_FORM


def _describe_values(option: VllmOption) -> str:
    value = option.value
    if isinstance(value, bool) or value == []:
        return "no value"
    texts = map(str, value) if isinstance(value, list) else [json.dumps(value, default=str)]
    return " ".join(texts)[:80]


def _suggest_form(option: VllmOption, form: str) -> str:
    name, value = option.name, option.value
    if isinstance(value, bool) or value == []:
        return f"write a value for {option.flag}"
    if form == FLAG_FORM:
        return f"write {option.plain_name}: true, or false, in vllm_args"
    if name in APPENDED and not option.is_raw:
        return f"write {name}: {{repeat: {json.dumps(value)}}}"
    return f"keep one of them; or remove what belongs to no option: {value[-1]}"


def _check_dashes(context: RuleContext) -> Iterator[RuleFinding]:
    forms = load_option_forms()
    for option in context.vllm_options:
        items = option.value if isinstance(option.value, list) else []
        found = [str(item) for item in items if is_option_word(str(item))]
        if found and not option.is_raw and _list_values(option, forms) == items:
            yield RuleFinding(
                subject=option.flag,
                expected="values without a dash before them: vLLM takes such a word for an option",
                seen=found[0][:80],
                where=option.where,
                fix=f"remove {found[0][:40]}, or write it on a line of its own",
            )


def _check_negations(context: RuleContext) -> Iterator[RuleFinding]:
    for option in context.vllm_options:
        never = option.value is False and option.name in load_option_forms().only_true
        twice = isinstance(option.value, bool) and option.name != option.plain_name
        if twice or (option.is_raw and never):
            yield RuleFinding(
                subject=option.flag,
                expected="one negation" if twice else "no negation: this flag has none",
                seen=option.written,
                where=option.where,
                fix=f"remove {option.written}"
                + twice * f", or write {option.plain_name}: true, or false, in vllm_args",
            )


def _check_first_word(context: RuleContext) -> Iterator[RuleFinding]:
    words = context.settings.value("vllm_raw_args") or ()
    first = str(words[0]) if words else "--"
    if not is_option_word(first) and not first.startswith("--"):
        yield RuleFinding(
            subject="vllm_raw_args",
            expected="an option as the first word",
            seen=first[:80],
            where=context.settings.origin("vllm_raw_args", "0"),
            fix=f"remove {first[:40]}, or write its option before it",
        )


RULES = (
    Rule(
        id="count",
        why="vLLM exits when it reads its options: it expects a value, or another number of them",
        source="vLLM's own parser, 0.32.0, and Python's argparse",
        find=_check_counts,
    ),
    Rule(
        id="dash",
        why='vLLM exits with "unrecognized arguments"',
        source="vLLM's argument parser (argparse)",
        find=_check_dashes,
    ),
    Rule(
        id="negation",
        why='vLLM exits with "unrecognized arguments"',
        source="vLLM's own parser, 0.32.0",
        find=_check_negations,
    ),
    Rule(
        id="first_word",
        why='vLLM exits with "unrecognized arguments"',
        source="vLLM's argument parser (argparse)",
        find=_check_first_word,
    ),
)
