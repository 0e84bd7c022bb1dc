"""Options and variables that vLLM does not know, that sparkfleet sets, or that were cut wrong."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.images import FORK_OPTIONS
from sparkfleet.recipes.rules.kernels import ATTENTION
from sparkfleet.recipes.rules.models import is_gemma4
from sparkfleet.recipes.rules.renamed import OPTIONS, VARIABLES
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext, format_option_value
from sparkfleet.spelling import did_you_mean
from sparkfleet.vllm import releases
from sparkfleet.vllm.option_names import ATTACHED, COMPILATION, SHORT_NAMES, complete_short_name
from sparkfleet.vllm.options import VllmOption
from sparkfleet.vllm.owned_options import OWNED_OPTIONS, SECRET_OPTIONS, find_owned_option

VARIABLE = re.compile(r"VLLM_[A-Z0-9_]+")
OF_MOD = ", or one that a mod adds"  # the list of an image is read before its mods
ONE_WORD = re.compile(r"--[A-Za-z][\w.-]*")
ELSEWHERE = {  # options by which vLLM listens, or has options, where sparkfleet does not look
    "config": "sparkfleet does not read the options in its file",
    "grpc": "sparkfleet asks vLLM over HTTP",
    "ssl-certfile": "sparkfleet asks vLLM over http, not https",
    "ssl-keyfile": "sparkfleet asks vLLM over http, not https",
    "uds": "sparkfleet asks vLLM at vllm_port",
}
SPELLED = re.compile(r"(--?)(no[-_])?([A-Za-z][A-Za-z0-9_-]*)(?=[=.]|$)")  # -seed, --no-ep, --sc.x
BROKEN = re.compile(r"\\\s*$|\\\s*\n|\s--[a-z]")


def _check_unknown_options(context: RuleContext) -> Iterator[RuleFinding]:
    for option in context.vllm_options:
        of_fork = option.name in FORK_OPTIONS.get(context.image.repository, ())
        known = of_fork and not context.facts.options
        spellings = {option.name, option.plain_name}
        if not known and _is_unknown_name("options", spellings, context, context.facts.options):
            names = _list_vllm_names("options", context, context.facts.options)
            history = releases.load_release_table("options").history(option.name)
            added = not history and bool(context.settings.value("engine_mods"))
            yield RuleFinding(
                subject=f"{option.flag} in vllm_args",
                expected=_describe_expected("an option", context) + OF_MOD * added,
                seen=f"one {history}" if history else "no such option in any release",
                where=option.where,
                fix=OPTIONS.get(option.name) or _suggest_name(option.name, history, names),
                severity=Severity.INFO if added else _rate_certainty(context),
            )


def _check_unknown_variables(context: RuleContext) -> Iterator[RuleFinding]:
    for name, value in context.environment.items():
        ignored = name == ATTENTION and is_gemma4(context)  # reported by a rule of its own
        if value is None or ignored or not VARIABLE.fullmatch(str(name)):
            continue
        if _is_unknown_name("variables", {name}, context, context.facts.variables):
            names = _list_vllm_names("variables", context, context.facts.variables)
            history = releases.load_release_table("variables").history(name)
            if not history and _has_own_variables(context):
                continue
            yield RuleFinding(
                subject=f"{name} in vllm_env",
                expected=_describe_expected("a variable", context),
                seen=f"one {history}" if history else "a name that no release reads",
                where=context.at(name),
                fix=VARIABLES.get(name) or _suggest_name(name, history, names),
                severity=Severity.WARNING if history else Severity.INFO,
            )


def _has_own_variables(context: RuleContext) -> bool:
    """Return whether the image's vLLM is a fork, or changed by mods, and may read more."""
    is_fork = context.image.repository in FORK_OPTIONS
    return is_fork or bool(context.settings.value("engine_mods"))


def _is_unknown_name(
    kind: str, spellings: Collection[str], context: RuleContext, installed: Collection[str]
) -> bool:
    """Return whether the vLLM that will run has none of these names; False where that is unknown.

    Without a version it is unknown only if no release of the table has ever had it.
    """
    if installed:
        return not any(spelling in installed for spelling in spellings)
    table = releases.load_release_table(kind)
    if table.covers(context.version):
        return all(table.has(spelling, context.version) is False for spelling in spellings)
    return not any(spelling in table.spans for spelling in spellings)


def _list_vllm_names(
    kind: str, context: RuleContext, installed: Collection[str]
) -> Collection[str]:
    table = releases.load_release_table(kind)
    return installed or (
        table.names(context.version) if table.covers(context.version) else table.spans
    )


def _describe_expected(noun: str, context: RuleContext) -> str:
    if not context.version:
        return f"{noun} of any vLLM release"
    return f"{noun} of vLLM {context.version}, {context.version_source}"


def _suggest_name(name: str, history: str, names: Collection[str]) -> str:
    """Return the likely name; an option of another release is not a typo."""
    meant = None if history else did_you_mean(name, names)
    return meant or f"remove {name}" + (", or run a vLLM that has it" if history else "")


def _rate_certainty(context: RuleContext) -> Severity:
    """Return ERROR for the vLLM that will run; a newer one than we know could have the option."""
    installed = bool(context.facts.options)
    sure = installed or releases.load_release_table("options").covers(context.version)
    return Severity.ERROR if sure else Severity.WARNING


def _check_owned_options(context: RuleContext) -> Iterator[RuleFinding]:
    for option in context.vllm_options:
        if owned := find_owned_option(option.written_flag):
            where = option.where
            yield RuleFinding(
                subject=option.flag,
                expected="unset: sparkfleet sets it itself",
                seen=option.written,
                where=replace(where, excerpt=None) if owned in SECRET_OPTIONS else where,
                fix=f"remove it; this is decided by: {OWNED_OPTIONS[owned]}",
            )


def _check_repeated_options(context: RuleContext) -> Iterator[RuleFinding]:
    by_name: dict[str, VllmOption] = {}
    for option in context.vllm_options:
        first = by_name.setdefault(option.flag, option)
        if first is not option and option.written != first.written:
            yield _report_repetition(first, option)


def _check_dropped_objects(context: RuleContext) -> Iterator[RuleFinding]:
    given = [option for option in context.vllm_options if option.value is not None]
    for name in dict.fromkeys(option.name for option in given if option.path):
        by_head = {
            option.head if option.path else "": option
            for option in given[::-1]
            if option.name == name
        }
        first, *others = reversed(by_head.values())
        for option in others:
            yield _report_repetition(first, option)


def _report_repetition(first: VllmOption, option: VllmOption) -> RuleFinding:
    return RuleFinding(
        subject=option.flag,
        expected="one occurrence",
        seen=f"{first.written} ({first.where}) and {option.written}",
        where=option.where,
        fix="keep one of the two",
    )


def _check_endpoint(context: RuleContext) -> Iterator[RuleFinding]:
    for name, expected in ELSEWHERE.items():
        if (option := context.enabled_option(name)) is not None:
            yield RuleFinding(
                subject=option.flag,
                expected=f"unset: {expected}",
                seen=format_option_value(option.value)[:80],
                where=option.where,
                fix="write its options in vllm_args" if name == "config" else f"remove {name}",
            )


def _check_help(context: RuleContext) -> Iterator[RuleFinding]:
    if (option := context.enabled_option("help")) is not None:
        yield RuleFinding(
            subject=option.flag,
            expected="unset",
            seen=option.written,
            where=option.where,
            fix=f"remove {option.written}",
        )


def _check_continuations(context: RuleContext) -> Iterator[RuleFinding]:
    for option in context.vllm_options:
        if isinstance(option.value, str) and BROKEN.search(option.value):
            yield RuleFinding(
                subject=option.flag,
                expected="one value, without the backslash or the options of a command line",
                seen=format_option_value(option.value)[:80],
                where=option.where,
                fix="write each option on a line of its own in vllm_args, and no backslash",
            )


def _check_words(context: RuleContext) -> Iterator[RuleFinding]:
    """Check the spelling of words of a command line; a name alone is taken from its dashes."""
    for index, written in enumerate(context.settings.value("vllm_raw_args") or ()):
        word = str(written)
        if problem := _find_word_problem(word):
            expected, fix = problem
            yield RuleFinding(
                subject="vllm_raw_args",
                expected=expected,
                seen=word[:80],
                where=context.settings.origin("vllm_raw_args", str(index)),
                fix=fix,
            )


def _check_level_words(context: RuleContext) -> Iterator[RuleFinding]:
    """Check -O among raw words, which was --compilation-config in older releases."""
    has_levels = releases.load_release_table("options").has(SHORT_NAMES["O"], context.version)
    for option in context.vllm_options:
        object_of_level = option.name == COMPILATION and option.written.startswith("-O")
        if option.is_raw and object_of_level and has_levels:
            yield RuleFinding(
                subject=option.written,
                expected="a level from 0 to 3",
                seen=format_option_value(option.value)[:80],
                where=option.where,
                fix="write -O0 to -O3, or --compilation-config in place of -O",
            )


def _find_word_problem(word: str) -> tuple[str, str] | None:
    """Return what argparse does not take in a word that is meant as an option, and the fix."""
    name, _, value = word.partition(" ")
    if word.startswith("--") and value and "=" not in name and ONE_WORD.fullmatch(name):
        fix = f'write two words: "{name}", "{value.strip()[:40]}"; or one line in vllm_args'
        return "an option and its value as two words", fix
    spelled = SPELLED.match(word)
    if spelled is None or ATTACHED.fullmatch(word.partition("=")[0]):
        return None
    dashes, negation, head = spelled.groups()
    long = SHORT_NAMES.get(head)
    if len(dashes) == 2 and long and not find_owned_option(word):
        fix = f"--no-{long}" if negation else f"-{head}"
        return "one dash before a short name", f"write {fix}{word[spelled.end() :]}"
    is_short = complete_short_name(head) in SHORT_NAMES
    if len(dashes) == 1 and (negation or not is_short):
        fix = f"--no-{long}" if negation and long else f"-{word}"
        return "two dashes before a long name", f"write {fix}"
    return None


RULES = (
    Rule(
        id="word",
        why='vLLM exits with "unrecognized arguments"',
        source="vLLM's argument parser (argparse); vllm-project/vllm#22072, "
        "vllm-project/vllm#46325",
        find=_check_words,
    ),
    Rule(
        id="level_word",
        why='vLLM exits with "unrecognized arguments"',
        source="vLLM's utils/argparse_utils.py, 0.12 to 0.33: -O is --optimization-level",
        find=_check_level_words,
    ),
    Rule(
        id="option",
        why='vLLM exits with "unrecognized arguments"',
        source="vLLM's own list, of the engine that is installed or by release",
        find=_check_unknown_options,
    ),
    Rule(
        id="variable",
        why="vLLM logs it as unknown and ignores it",
        source="single-spark, bring-up; vLLM's envs.py, of the engine or by release",
        find=_check_unknown_variables,
    ),
    Rule(
        id="owned",
        why="if an option is given twice, the last one counts",
        source="vLLM's argument parser (argparse)",
        find=_check_owned_options,
    ),
    Rule(
        id="twice",
        why="if an option is given twice, the last one counts",
        source="vLLM's argument parser (argparse)",
        find=_check_repeated_options,
    ),
    Rule(
        id="one_object",
        why="vLLM takes the dotted keys after one word, and drops others and a whole object",
        source="vLLM's utils/argparse_utils.py, 0.10 to 0.33",
        find=_check_dropped_objects,
    ),
    Rule(
        id="endpoint",
        why="sparkfleet would not find vLLM, or not all of its options",
        source="vLLM's entrypoints/launchers and utils/argparse_utils.py, 0.32.0",
        find=_check_endpoint,
    ),
    Rule(
        id="help",
        why="vLLM prints its help and exits, and nothing is served",
        source="vLLM's argument parser (argparse)",
        find=_check_help,
    ),
    Rule(
        id="continuation",
        why="the next option becomes a part of this one's value",
        source="vLLM's argument parser (argparse)",
        find=_check_continuations,
    ),
)
