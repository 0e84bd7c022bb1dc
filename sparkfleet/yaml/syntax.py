"""Explains the syntax errors of libyaml: its words, the place of the mistake, and a hint.

libyaml reports where it gave up, often a line below the mistake, and says what it was reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import yaml

from sparkfleet.errors import Problem, Where
from sparkfleet.yaml.source import Source

PREFIX = "invalid YAML: "
QUOTE_HINT = 'a value with {{ }}, ": " or " #" in it needs quotes: key: "{{ value }}"'
ALIAS_HINT = 'quote a value that begins with *: "*.safetensors"'
KEYS_HINT = "check the indentation: keys of one mapping start in the same column"
ITEMS_HINT = 'check the indentation: items of one list start with "- " in the same column'
ESCAPE_HINT = r'write \\ for a backslash in "...", or use single quotes'
CLOSING = {"{": "}", "[": "]"}
NO_SPACE = re.compile(r"(?P<key>\s*(?:- +)*[\w.-]+:)(?P<value>[^\s:/].*)")  # but not of a URL
TAB = re.compile(r"[ -]*\t")
NAME = re.compile(r"[&*]([\w-]+)")

Explained = tuple[str, str | None]  # the message and the hint


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """An error of libyaml, with where it gave up, and the beginning of what it was reading."""

    source: Source
    context: str
    problem: str
    mark: yaml.Mark
    start: yaml.Mark

    @property
    def line(self) -> str:
        """The line in which libyaml gave up."""
        return self.get_line(self.mark.line)

    @property
    def sign(self) -> str:
        """The character at which libyaml gave up, "" at an end."""
        return self.line[self.mark.column : self.mark.column + 1]

    @property
    def begins_line(self) -> bool:
        """Whether only spaces come before that character."""
        return not self.line[: self.mark.column].strip()

    def get_line(self, number: int) -> str:
        """Return a line by its number from 0, "" after the end."""
        lines = self.source.lines
        return lines[number] if number < len(lines) else ""


def explain_syntax_error(failure: yaml.YAMLError, source: Source) -> Problem:
    """Return what is wrong, where, and what to write instead where that is known."""
    mark = getattr(failure, "problem_mark", None) or getattr(failure, "context_mark", None)
    if mark is None:
        return Problem(message=f"{PREFIX}{failure}", where=Where(file=source.file))
    problem = _Failure(
        source=source,
        context=getattr(failure, "context", None) or "",
        problem=getattr(failure, "problem", None) or str(failure),
        mark=mark,
        start=getattr(failure, "context_mark", None) or mark,
    )
    message, hint = _explain(problem)
    at = problem.start if _starts_at_mistake(problem) else mark
    where = source.where(at.line + 1, at.column + 1)
    return Problem(message=PREFIX + message, where=where, hint=hint)


def _starts_at_mistake(failure: _Failure) -> bool:
    """Return whether the mistake is in what libyaml was reading, not where it gave up."""
    return (failure.context, failure.problem) in (
        ("while scanning a quoted scalar", "found unexpected end of stream"),
        ("while scanning a simple key", "could not find expected ':'"),
    )


def _explain(failure: _Failure) -> Explained:
    if TAB.match(failure.line[: failure.mark.column + 1]):
        return "line indented with a tab", "use spaces"
    explain = BY_PROBLEM.get(failure.problem) or BY_CONTEXT.get(failure.context)
    message, hint = explain(failure) if explain else (failure.problem, None)
    if "{{" in failure.line and hint not in (ALIAS_HINT, ESCAPE_HINT):
        hint = QUOTE_HINT
    return message, hint


def _explain_colon(failure: _Failure) -> Explained:
    """Explain a ": " where no key can be: in a value, or after a line that is not a key's."""
    before = failure.line[: failure.mark.column]
    if re.search(r":\s", before):
        return failure.problem, QUOTE_HINT
    above = next(_iterate_above(failure), "")
    if hint := _suggest_space(above):
        return failure.problem, f"the line above: {hint}"
    if re.search(r":\s+\S", above):
        return failure.problem, KEYS_HINT
    return failure.problem, 'the line above has no ": "' if above else None


def _iterate_above(failure: _Failure) -> Iterator[str]:
    """Yield the lines above the mistake, the nearest first, without blank ones and comments."""
    for line in reversed(failure.source.lines[: failure.mark.line]):
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def _suggest_space(line: str) -> str:
    """Return what to do about ``key:value``, "" for another line."""
    match = NO_SPACE.fullmatch(line)
    if match is None:
        return ""
    return f"write a space after the colon: {match['key'].strip()} VALUE"


def _explain_missing_colon(failure: _Failure) -> Explained:
    line = failure.get_line(failure.start.line)
    message = "expected ': ' after a key"
    return message, _suggest_space(line) or "indent it if it belongs to the value above"


def _explain_key(failure: _Failure) -> Explained:
    """Explain what ends a mapping too early: indentation, or what follows a value."""
    if failure.begins_line and failure.sign == "-":
        return failure.problem, f"{KEYS_HINT}, and items of a list below their key"
    if failure.begins_line:
        return failure.problem, KEYS_HINT
    if failure.sign in ("]", "}"):
        return failure.problem, f"remove the {failure.sign} that closes nothing"
    if failure.line[: failure.mark.column].rstrip()[-1:] in ("'", '"'):
        return failure.problem, "quote the whole value; write '' for a ' inside single quotes"
    return failure.problem, None


def _explain_item(_failure: _Failure) -> Explained:
    return "expected '- '", ITEMS_HINT


def _explain_flow(failure: _Failure) -> Explained:
    """Explain a list or mapping in brackets that goes on otherwise than with , or its end."""
    opened = "[" if "sequence" in failure.context else "{"
    closing = CLOSING[opened]
    hint = f"close the {opened} of line {failure.start.line + 1} with {closing}, or add a comma"
    return f"expected ',' or '{closing}'", hint


def _explain_content(failure: _Failure) -> Explained:
    """Explain a sign or an end of the file in the place of a value."""
    if not (failure.sign or "".join(failure.source.lines[failure.mark.line + 1 :]).strip()):
        return "the file ends inside [ or {", "is it complete? close each [ with ] and { with }"
    if "flow" in failure.context:
        return f"unexpected {failure.sign!r}", "a value is missing before it"
    return _explain_sign(failure)


def _explain_sign(failure: _Failure) -> Explained:
    """Explain a sign with which no value begins."""
    sign = failure.sign
    if failure.line[: failure.mark.column].endswith("{"):
        sign = "{" + sign  # {% of Jinja
    return f"unexpected {sign!r}", f'quote a value that begins with {sign}: "{sign}..."'


def _explain_quote(failure: _Failure) -> Explained:
    sign = failure.get_line(failure.start.line)[failure.start.column : failure.start.column + 1]
    return (
        f"unclosed quote {sign}",
        f"close it with another {sign}; is the file complete?",
    )


def _explain_escape(failure: _Failure) -> Explained:
    return failure.problem, ESCAPE_HINT


def _explain_anchor(failure: _Failure) -> Explained:
    match = NAME.match(failure.line[failure.mark.column :])
    name = f" {match[1]!r}" if match else ""
    message = f"duplicate anchor{name}, first set on line {failure.start.line + 1}"
    return message, "give each anchor (&NAME) its own name"


def _explain_alias(failure: _Failure) -> Explained:
    match = NAME.match(failure.line[failure.mark.column :])
    return f"found undefined alias {match[1]!r}" if match else failure.problem, ALIAS_HINT


def _explain_alias_name(_failure: _Failure) -> Explained:
    return "expected a name after *", ALIAS_HINT


def _explain_anchor_name(_failure: _Failure) -> Explained:
    return "expected a name after &", 'quote a value that begins with &: "&..."'


def _explain_tag(failure: _Failure) -> Explained:
    return failure.problem, 'quote a value that begins with !: "!..."'


def _explain_block_text(failure: _Failure) -> Explained:
    if "line break" not in failure.problem:
        return failure.problem, None
    hint = 'start its text on the next line, or quote the value: ">=1.0"'
    return "unexpected text after | or >", hint


def _explain_list(failure: _Failure) -> Explained:
    return failure.problem, 'start the list on the next line, each item with "- "'


def _explain_document(_failure: _Failure) -> Explained:
    return "expected a single document", "delete the line --- and the other documents"


def _explain_directive(failure: _Failure) -> Explained:
    return failure.problem, "quote a key that begins with %, and start a document with ---"


BY_PROBLEM: Mapping[str, Callable[[_Failure], Explained]] = {
    "mapping values are not allowed in this context": _explain_colon,
    "could not find expected ':'": _explain_missing_colon,
    "did not find expected key": _explain_key,
    "did not find expected '-' indicator": _explain_item,
    "did not find expected ',' or '}'": _explain_flow,
    "did not find expected ',' or ']'": _explain_flow,
    "did not find expected node content": _explain_content,
    "found character that cannot start any token": _explain_sign,
    "found unexpected end of stream": _explain_quote,
    "found undefined alias": _explain_alias,
    "block sequence entries are not allowed in this context": _explain_list,
    "but found another document": _explain_document,
    "did not find expected <document start>": _explain_directive,
}
BY_CONTEXT: Mapping[str, Callable[[_Failure], Explained]] = {
    "while parsing a quoted scalar": _explain_escape,
    "found duplicate anchor; first occurrence": _explain_anchor,
    "while scanning an alias": _explain_alias_name,
    "while scanning an anchor": _explain_anchor_name,
    "while parsing a tag": _explain_tag,
    "while scanning a tag": _explain_tag,
    "while scanning a block scalar": _explain_block_text,
    "while scanning a directive": _explain_directive,
}
