"""Words of a shell text in a YAML value, each with its place in the file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkfleet.errors import RecipeError
from sparkfleet.yaml.nodes import Node, Scalar

TOKEN = re.compile(
    r"""(?P<joined>\\[ \t]*\n)|(?P<blank>[ \t]+)|(?P<comment>(?<!\S)\#[^\n]*)
    |(?P<redirect>\d?>{1,2}(?:&\d|[ \t]*[^\s;&|]+))|(?P<end>\n|;|&&|\|\|?|&)
    |(?P<word>(?:'[^']*'|"(?:\\.|[^"\\])*"|\\(?![ \t]*\n).|[^\s'"\\;&|>])+)
    |(?P<open>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is written, with its quotes; `place` is where it starts."""

    raw: str
    place: Scalar


Command = tuple[Word, ...]


def split_commands(node: Scalar) -> tuple[Command, ...]:
    """Return the commands of a shell text, each as its words; raises RecipeError.

    Comments, line ends after a backslash and redirections are left out.
    """
    commands: list[Command] = []
    words: list[Word] = []
    for word in _iterate_words(node):
        if word is None:
            commands += [tuple(words)] if words else []
            words = []
        else:
            words.append(word)
    return (*commands, tuple(words)) if words else tuple(commands)


def split_raw_word(word: Word, text: str) -> list[str]:
    """Return the words that `text`, the expanded `word`, is for a shell; raises RecipeError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise RecipeError(f"{text!r}: {error}", where=word.place.where) from error


def _iterate_words(node: Scalar) -> Iterator[Word | None]:
    """Yield every word, and None at the end of a command."""
    locate = _Locator(node)
    for match in TOKEN.finditer(str(node.value)):
        text = match.group()
        if match.lastgroup == "word":
            yield Word(raw=text, place=locate.find(text))
        elif match.lastgroup == "end":
            yield None
        elif match.lastgroup == "open" and not text.isspace():
            place = locate.find(text)
            raise RecipeError(
                f"the command has a {text} that is not closed",
                where=place.where,
                hint="close it on the same line, or put a backslash before it",
            )


class _Locator:
    """Finds words of a value in the lines of its file, one after the other."""

    def __init__(self, node: Scalar) -> None:
        self._node = node
        self._line = node.line - 1
        self._col = node.col - 1

    def find(self, raw: str) -> Scalar:
        """Return a node at the next place of `raw`; at the value itself where it is escaped."""
        first = raw.splitlines()[0]
        lines = self._node.source.lines
        col = self._col
        for line in range(self._line, len(lines)):
            at = lines[line].find(first, col)
            if at >= 0:
                self._line = line
                self._col = at + len(first)
                return _place(self._node, line + 1, at + 1)
            col = 0
        return self._node


def _place(node: Node, line: int, col: int) -> Scalar:
    return Scalar(source=node.source, line=line, col=col, value=None)


def join_words(words: Sequence[Word]) -> str:
    """Return words as one line of text."""
    return " ".join(word.raw for word in words)
