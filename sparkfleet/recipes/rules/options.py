"""Options and variables that vLLM does not know, that sparkfleet sets, or that were cut wrong."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from sparkfleet.model import Severity
from sparkfleet.recipes.rules import releases
from sparkfleet.recipes.rules.kernels import ATTENTION
from sparkfleet.recipes.rules.models import is_gemma4
from sparkfleet.recipes.rules.renamed import OPTIONS, VARIABLES
from sparkfleet.recipes.rules.rule import Finding, Rule
from sparkfleet.recipes.rules.subject import Option, Subject, shown
from sparkfleet.spelling import did_you_mean

VARIABLE = re.compile(r"VLLM_[A-Z0-9_]+")
BROKEN = re.compile(r"\\\s*$|\\\s*\n|\s--[a-z]")


def _unknown(subject: Subject) -> Iterator[Finding]:
    for option in subject.every:
        if _is_unknown("options", option.name, subject, subject.known.options):
            known = _names("options", subject, subject.known.options)
            history = releases.table("options").history(option.name)
            yield Finding(
                subject=f"{option.flag} in vllm_args",
                expected=_place("an option", subject),
                seen=history or "no release has it",
                where=option.where,
                fix=OPTIONS.get(option.name) or _fix(option.name, history, known),
                severity=_certainty(subject),
            )


def _unread(subject: Subject) -> Iterator[Finding]:
    for name, value in subject.environment.items():
        gemmas = name == ATTENTION and is_gemma4(subject)  # a rule of its own tells of it
        if value is None or gemmas or not VARIABLE.fullmatch(str(name)):
            continue
        if _is_unknown("variables", name, subject, subject.known.variables):
            known = _names("variables", subject, subject.known.variables)
            history = releases.table("variables").history(name)
            yield Finding(
                subject=f"{name} in vllm_env",
                expected=_place("a variable", subject),
                seen=history or "no release reads it",
                where=subject.at(name),
                fix=VARIABLES.get(name) or _fix(name, history, known),
                severity=Severity.WARNING if history else Severity.INFO,
            )


def _is_unknown(kind: str, name: str, subject: Subject, own: Collection[str]) -> bool:
    """Return whether the vLLM that will run has no such name; False where nobody can tell.

    Without a version it is unknown only if no release of the table has ever had it.
    """
    names = _spellings(name) if kind == "options" else (name,)
    if own:
        return not any(one in own for one in names)
    table = releases.table(kind)
    if table.covers(subject.version):
        return all(table.has(one, subject.version) is False for one in names)
    return not any(one in table.spans for one in names)


def _spellings(name: str) -> tuple[str, ...]:
    """Return what an option can be in a list: itself, without its key, without its negation."""
    head = name.partition(".")[0]
    return (name, head, head.removeprefix("no-"))


def _names(kind: str, subject: Subject, own: Collection[str]) -> Collection[str]:
    table = releases.table(kind)
    return own or (table.names(subject.version) if table.covers(subject.version) else table.spans)


def _place(noun: str, subject: Subject) -> str:
    if not subject.version:
        return f"{noun} of some vLLM"
    return f"{noun} of vLLM {subject.version}, {subject.version_source}"


def _fix(name: str, history: str, known: Collection[str]) -> str:
    """Return what was meant; what another release has is no slip."""
    meant = None if history else did_you_mean(name, known)
    return meant or f"take {name} out" + (", or run a vLLM that has it" if history else "")


def _certainty(subject: Subject) -> Severity:
    """Return ERROR for the vLLM that will run; a newer one than we know could have the option."""
    own = bool(subject.known.options)
    sure = own or releases.table("options").covers(subject.version)
    return Severity.ERROR if sure else Severity.WARNING


def _owned(subject: Subject) -> Iterator[Finding]:
    for option in subject.every:
        if decided := subject.decided_by(option.word):
            yield Finding(
                subject=option.flag,
                expected="left out: sparkfleet sets it itself",
                seen=option.written,
                where=replace(option.where, excerpt=None),  # --api-key is one of them
                fix=f"take it out; this is decided by: {decided}",
            )


def _twice(subject: Subject) -> Iterator[Finding]:
    seen: dict[str, Option] = {}
    for option in subject.every:
        first = seen.setdefault(option.name, option)
        if first is not option and option.written != first.written:
            yield Finding(
                subject=option.flag,
                expected="once",
                seen=f"as {first.written} ({first.where}) and as {option.written}",
                where=option.where,
                fix="keep one of the two",
            )


def _continued(subject: Subject) -> Iterator[Finding]:
    for option in subject.every:
        if isinstance(option.value, str) and BROKEN.search(option.value):
            yield Finding(
                subject=option.flag,
                expected="one value, without the backslash or the options of a command line",
                seen=shown(option.value)[:80],
                where=option.where,
                fix="write each option on a line of its own in vllm_args, and no backslash",
            )


RULES = (
    Rule(
        id="option",
        why='vLLM ends with "unrecognized arguments"',
        source="case C34; vLLM's own list, of the engine that is installed or by release",
        find=_unknown,
    ),
    Rule(
        id="variable",
        why="vLLM logs it as unknown and ignores it",
        source="single-spark, bring-up; vLLM's envs.py, of the engine or by release",
        find=_unread,
    ),
    Rule(
        id="owned",
        why="an option that is given twice means whichever comes last",
        source="case C34",
        find=_owned,
    ),
    Rule(
        id="twice",
        why="an option that is given twice means whichever comes last",
        source="case C34",
        find=_twice,
    ),
    Rule(
        id="continuation",
        why="what was meant as the next option becomes a part of this one's value",
        source="case C34",
        find=_continued,
    ),
)
