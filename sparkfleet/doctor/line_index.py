"""Index of the lines of a log by the words that patterns need; pure.

A log is read once for the words of all patterns. Digits are left out, so that lines which differ in
numbers alone are looked at once.
"""

from __future__ import annotations

import array
import functools
import itertools
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_BREAK = "\n"
_DIGITS = string.digits.encode()
_LETTERS = bytes(byte if chr(byte) in string.ascii_lowercase else ord(" ") for byte in range(256))
_SHORTEST_WORD = 4  # letters of a word that is looked up as a whole
_LINES = 1000  # that are read at once
_MAX_KNOWN = 100_000  # words, and lines, that are known at a time


@dataclass(frozen=True, slots=True)
class _Probe:
    """Letters that find a needle, as a whole word of the log or a part of one; its longest line."""

    letters: bytes
    whole: bool
    line: bytes


@functools.cache
def _choose_probe(needle: str) -> _Probe:
    line = _leave_out_digits(max(needle.split(_BREAK), key=len))
    letters = line.translate(_LETTERS)
    inner = letters.split()
    # What is next to the needle in a log may belong to its first and its last word.
    if not letters.startswith(b" "):
        del inner[:1]
    if not letters.endswith(b" "):
        del inner[-1:]
    longest = max(inner, key=len, default=b"")
    if len(longest) >= _SHORTEST_WORD:
        return _Probe(longest, whole=True, line=line)
    return _Probe(max(letters.split(), key=len, default=b""), whole=False, line=line)


def _leave_out_digits(lowered: str) -> bytes:
    return lowered.encode(errors="replace").translate(None, _DIGITS)


class LineIndex:
    """The lines (from 0) of a log that have any of some needles, which are in lower case.

    A line may have a needle but for its digits.
    """

    def __init__(self, lines: Sequence[str], needles: Iterable[str]) -> None:
        self._lines = {needle: array.array("q") for needle in needles}
        self._texts = {needle: _choose_probe(needle).line for needle in self._lines}
        self._whole: dict[bytes, list[str]] = {}
        self._parts: dict[bytes, list[str]] = {}
        for needle in sorted(self._lines):
            probe = _choose_probe(needle)
            words = self._whole if probe.whole else self._parts
            words.setdefault(probe.letters, []).append(needle)
        self._known: set[bytes] = set()  # words of the log
        self._wanted: dict[bytes, frozenset[str]] = {}  # the needles of those that have any
        self._read: dict[bytes, tuple[str, ...]] = {}  # the needles of a line
        for begin in range(0, len(lines), _LINES):
            self._add(begin, lines[begin : begin + _LINES])

    def find_lines(self, needles: Iterable[str]) -> Sequence[int]:
        """Return each line that may have one of `needles`, in their order."""
        found = [lines for needle in needles if (lines := self._lines[needle])]
        if len(found) < 2:
            return found[0] if found else ()
        return tuple(dict.fromkeys(sorted(itertools.chain(*found))))

    def _add(self, begin: int, lines: Sequence[str]) -> None:
        text = _leave_out_digits(_BREAK.join(lines).lower())
        self._learn(set(text.translate(_LETTERS).split()))
        read = self._read
        for number, line in enumerate(text.split(_BREAK.encode()), begin):
            needles = read.get(line)
            if needles is None:
                if len(read) >= _MAX_KNOWN:
                    read.clear()
                needles = read[line] = self._find_needles(line)
            for needle in needles:
                self._lines[needle].append(number)

    def _find_needles(self, line: bytes) -> tuple[str, ...]:
        words = self._wanted.keys() & set(line.translate(_LETTERS).split())
        if not words:
            return ()
        needles = frozenset().union(*map(self._wanted.__getitem__, words))
        return tuple(needle for needle in needles if self._texts[needle] in line)

    def _learn(self, words: set[bytes]) -> None:
        """Add words of the log; those that needles have are kept for good."""
        new = words - self._known
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known |= new
        wanted = {word: [*self._whole[word]] for word in new & self._whole.keys()}
        for word, part in _find_parts(new, self._parts):
            wanted.setdefault(word, []).extend(self._parts[part])
        self._wanted |= {word: frozenset(needles) for word, needles in wanted.items()}


def _find_parts(words: Iterable[bytes], parts: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each of `words` that has one of `parts`, with that part."""
    joined = b" ".join((b"", *words, b""))
    for part in parts:
        at = joined.find(part)
        while at >= 0:
            end = joined.index(b" ", at)
            yield joined[joined.rindex(b" ", 0, at) + 1 : end], part
            at = joined.find(part, end)
